package ring_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

var (
	ctx   = context.Background()
	sizes = []int{1, 2, 3, 4, 5, 7, 8}
	ops   = []ring.Op{ring.Sum, ring.Avg, ring.Min, ring.Max, ring.Prod}
)

func TestBarrierWaitsForAll(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		for _, size := range sizes {
			comms := l.of(size).job(t).Join(t)
			for late := range size {
				entered := make(chan int, size)
				release := make(chan struct{})
				done := make(chan error, 1)
				go func() {
					done <- ringtest.Each(size, func(rank int) error {
						if rank == late {
							<-release
						}
						entered <- rank
						if err := ring.Barrier(ctx, comms[rank]); err != nil {
							return err
						}
						if n := len(entered); n != size {
							return fmt.Errorf("left the barrier when %d of %d had entered", n, size)
						}
						return nil
					})
				}()
				close(release)
				must.OK(t, <-done, size, "ranks, rank", late, "late")
			}
		}
	})
}

func TestArguments(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(2).job(t).Join(t)
		c := comms[0]
		buf := make([]float32, 8)
		for name, err := range map[string]error{
			"op":      ring.AllReduce(ctx, c, buf, 0),
			"op 9":    ring.AllReduce(ctx, c, buf, 9),
			"root":    ring.Broadcast(ctx, c, buf, 2),
			"root -1": ring.Broadcast(ctx, c, buf, -1),
			"length":  ring.AllGather(ctx, c, buf, buf[:3]),
			"overlap": ring.AllGather(ctx, c, buf, buf[2:6]),
		} {
			check.That(t, err != nil, "%s: no error", name)
		}
		// Nothing was sent, so both ranks can go on.
		ringtest.All(t, 2, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
	})
}

func TestNoAllocation(t *testing.T) {
	must.HaveTime(t)
	all := layouts()
	ordered := all[2]
	ordered.name = "in order"
	ordered.more = []string{"RING_ORDER=rank"}
	for _, l := range []layout{all[0].of(2), all[1].of(2), all[2], all[4].of(2), ordered} {
		t.Run(l.name, func(t *testing.T) {
			comms := l.join(t, l.job(t))
			const runs = 20
			lengths := []int{1, 1000, 1 << 20}
			if l.hosts != nil {
				lengths[2] = 10_000
			}
			for _, n := range lengths {
				for _, f := range specs() {
					calls := make([]ring.Collective, l.size)
					for rank, c := range comms {
						calls[rank] = f.fill(position{n: n}.at(c), heap)
					}
					work := func(rank int) {
						if comms[rank].Do(ctx, calls[rank]) != nil {
							panic("a call failed")
						}
					}
					// Other work of the process, such as the stall watch, counts too; a call that
					// allocates does so every time.
					least := math.Inf(1)
					for try := 0; try < 10 && least > 0; try++ {
						var others sync.WaitGroup
						for rank := 1; rank < l.size; rank++ {
							others.Go(func() {
								for range runs + 1 { // AllocsPerRun warms up once
									work(rank)
								}
							})
						}
						least = min(least, testing.AllocsPerRun(runs, func() { work(0) }))
						others.Wait()
					}
					check.That(t, least <= 0, "%s of %d elements: %v allocations a call", f.name, n, least)
				}
			}
		})
	}
}

// What a rank sends to itself must be what it expects of itself: it is told so, and the Comm works
// on.
func TestAllToAllToItself(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	ringtest.All(t, 2, func(rank int) error {
		counts := []int{2, 2}
		sends := []int{2, 2}
		if rank == 0 {
			wrong := []int{1, 3}
			if err := ring.AllToAllV(ctx, comms[0], make([]int32, 4), make([]int32, 4), counts, wrong); err == nil ||
				!strings.Contains(err.Error(), "to itself") {
				return fmt.Errorf("a rank sends 1 element to itself and expects 2: %v", err)
			}
		}
		return ring.AllToAllV(ctx, comms[rank], make([]int32, 4), make([]int32, 4), counts, sends)
	})
}

// Slow messages make equal parts travel together, and slow bytes make them travel alone.
func TestAllToAllByCost(t *testing.T) {
	for _, network := range []string{"1s,10Gb/s", "1ns,1Mb/s"} {
		for _, hosts := range [][]int{{1, 1, 1, 1, 1}, {2, 2}, {3, 3, 3}, {3, 1}} {
			for _, order := range []string{"by host", "interleaved"} {
				t.Run(fmt.Sprint(network, hosts, order), func(t *testing.T) {
					l := stacked(hosts, "RING_NETWORK="+network)
					join := func(t *testing.T) []*ring.Comm { return l.join(t, l.job(t)) }
					if order == "interleaved" {
						join = interleaved(join)
					}
					comms := join(t)
					for _, f := range forms() {
						if f.kind != ring.KindAllToAll {
							continue
						}
						for _, n := range []int{0, 1, 20, 4000} {
							check.OK(t, f.byAll(comms, position{n: n}, synchronously), f.name, "of", n)
						}
					}
				})
			}
		}
	}
}

// The names are of messages, and the values of ring.h.
func TestConstantsHaveTheirNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		ring.KindBarrier: "barrier", ring.KindBroadcast: "broadcast", ring.KindAllGather: "allgather",
		ring.KindAllReduce: "allreduce", ring.KindReduce: "reduce",
		ring.KindReduceScatter: "reduce-scatter", ring.KindGather: "gather", ring.KindScatter: "scatter",
		ring.KindAllToAll: "alltoall", ring.KindMessage: "message",
		ring.Float32: "float32", ring.Float64: "float64", ring.Float16: "float16", ring.BFloat16: "bfloat16",
		ring.Int8: "int8", ring.Uint8: "uint8",
		ring.Int16: "int16", ring.Int32: "int32", ring.Int64: "int64", ring.Uint64: "uint64", ring.Bool: "bool",
		ring.Sum: "sum", ring.Avg: "avg", ring.Min: "min", ring.Max: "max", ring.Prod: "prod", ring.BAnd: "band",
		ring.BOr: "bor", ring.BXor: "bxor",
	} {
		got := value.String()
		check.That(t, got == want, "%T %d is %q, want %q", value, value, got, want)
	}
}

// collective is a call that needs no more than these. Op is 0 unless elements are combined.
func collective(kind ring.Kind, typ ring.Type, op ring.Op, dst, src ring.Buffer) ring.Collective {
	return ring.Collective{
		Kind: kind,
		Type: typ,
		Op:   op,
		Dst:  dst,
		Src:  src,
	}
}
