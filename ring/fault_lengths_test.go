package ring_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// R22: rank 1 makes the calls of which others are made, and says lengths that are no lengths. Rank 0 gets an error: it takes
// no memory for them, and reckons nothing from them.
func TestR22LengthsThatAreNone(t *testing.T) {
	state := func() ring.State { v := map[string]int{}; return ring.ValueState(&v) }
	splitting := func(c *ring.Comm) error { _, err := ring.Split(ctx, c, 0, 0); return err }
	saying := func(n int64) func(c *ring.Comm) error {
		return func(c *ring.Comm) error {
			all := make([]int64, 2*c.Size())
			return errors.Join(ring.AllGather(ctx, c, all, []int64{0, 0}), ring.AllGather(ctx, c, all, []int64{0, n}))
		}
	}
	syncing := func(c *ring.Comm) error { return state().Sync(ctx, c, 1) }
	rooted := func(n int64) func(c *ring.Comm) error {
		return func(c *ring.Comm) error { return ring.Broadcast(ctx, c, []int64{n}, 1) }
	}
	gathering := func(elements int) func(c *ring.Comm) error {
		return func(c *ring.Comm) error {
			q, err := ring.NewQueue(ctx, c)
			if err != nil {
				return err
			}
			defer q.Close()
			ticket, err := q.SubmitV("x", ring.Collective{Kind: ring.KindAllGather, Type: ring.Float64, Src: few(elements)}, func(counts []int) ring.Buffer {
				n := 0
				for _, more := range counts {
					n += more
				}
				return ring.BufferOf(make([]float64, n))
			})
			if err != nil {
				return err
			}
			return ticket.Wait(ctx)
		}
	}
	for _, tt := range []struct {
		name          string
		honest, lying func(c *ring.Comm) error
		says          string
	}{
		{name: "split, negative", honest: splitting, lying: saying(-1), says: "rank 1 on testhost says that it tells -1 bytes"},
		{name: "split, more than there can be", honest: splitting, lying: saying(math.MaxInt64), says: "that it tells 9223372036854775807 bytes"},
		{name: "state, negative", honest: syncing, lying: rooted(-1), says: "rank 1 on testhost says that its state has -1 bytes"},
		{name: "state, more than there can be", honest: syncing, lying: rooted(math.MaxInt64), says: "rank 1"},
		{name: "gathered, more than there is", honest: gathering(3), lying: gathering(1 << 39), says: "more than this machine's memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := ground{name: "tcp", transport: "tcp", size: 2, streams: 1}
			comms := g.join(t, g.door(t))
			err := ringtest.Each(2, func(rank int) error {
				if rank == 1 {
					_ = tt.lying(comms[1])
					return comms[1].Close()
				}
				err := tt.honest(comms[0])
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					return fmt.Errorf("it ends with %v, want %q", err, tt.says)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// few says that it is so many elements, and is one.
func few(elements int) ring.Buffer {
	return ring.Buffer{Ptr: unsafe.Pointer(new(float64)), Len: elements}
}
