package ring_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

func TestSplitPlacesRanks(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(5).job(t).Join(t)
		// odd and even ranks, the even ones in turn
		parts := make([]*ring.Comm, 5)
		ringtest.All(t, 5, func(rank int) error {
			key := rank
			if rank%2 == 0 {
				key = -rank
			}
			var err error
			parts[rank], err = ring.Split(ctx, comms[rank], rank%2, key)
			return err
		})
		for rank, want := range map[int][2]int{0: {2, 3}, 2: {1, 3}, 4: {0, 3}, 1: {0, 2}, 3: {1, 2}} {
			p := parts[rank]
			check.That(t, p.Rank() == want[0] && p.Size() == want[1] && p.Host() == comms[rank].Host(),
				"rank %d is %d of %d on %s, want %d of %d", rank, p.Rank(), p.Size(), p.Host(), want[0], want[1])
			check.That(t, p.LocalRank() < p.LocalSize() && p.CrossRank() < p.CrossSize() && p.LocalSize() <= p.Size(),
				"rank %d: local rank %d of %d, cross rank %d of %d", rank, p.LocalRank(), p.LocalSize(), p.CrossRank(),
				p.CrossSize())
		}
		// The parts and the whole work at the same time.
		ringtest.All(t, 15, func(i int) error {
			c := comms[i%5]
			switch i / 5 {
			case 1:
				c = parts[i%5]
			case 2:
				return nil
			}
			for range 20 {
				v := []float32{1}
				if err := ring.AllReduce(ctx, c, v, ring.Sum); err != nil {
					return err
				}
				if v[0] != float32(c.Size()) {
					return fmt.Errorf("sum over %d ranks is %v", c.Size(), v[0])
				}
			}
			return nil
		})
		for _, p := range parts {
			p.Close()
		}
	})
}

func TestSplitWithoutAPart(t *testing.T) {
	comms := ringtest.NewJob(t, 3).Join(t)
	ringtest.All(t, 3, func(rank int) error {
		part, err := ring.Split(ctx, comms[rank], []int{0, -1, 0}[rank], 0)
		if err != nil {
			return err
		}
		if rank == 1 {
			if part != nil {
				return errors.New("a part for a rank that wants none")
			}
			return ring.Barrier(ctx, comms[rank])
		}
		defer part.Close()
		if err := ring.Barrier(ctx, part); err != nil || part.Size() != 2 {
			return fmt.Errorf("part of %d: %w", part.Size(), err)
		}
		return ring.Barrier(ctx, comms[rank])
	})
}

func TestPartsOfParts(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(4).job(t).Join(t)
		halves := split(t, comms, func(*ring.Comm) (color, key int) { return 0, 0 })
		quarters := split(t, halves, func(c *ring.Comm) (color, key int) { return c.Rank() / 2, 0 })
		for i := range 2 { // the parts' ranks 0 come first
			everyForm(t, []*ring.Comm{quarters[i], quarters[i+2]}, 3000)
		}
	})
}

// A rank dies after it has sent its addresses and before the others of its part have connected:
// they get a PeerError at once, as in a call.
func TestSplitWhereARankDies(t *testing.T) {
	must.HaveTime(t)
	job := ringtest.NewJob(t, 2)
	comms := job.Join(t)
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	must.OK(t, err)
	defer deaf.Close()
	dying := func() error {
		c := comms[1]
		if err := ring.AllGather(ctx, c, make([]int64, 4), []int64{0, 0}); err != nil {
			return err
		}
		address := fmt.Sprintf(`{"host":%q,"addrs":[%q],"stripes":1,"guard":"plain"}`, ringtest.Host, deaf.Addr())
		for _, said := range []string{ringtest.Host, "", "", address} {
			heads := make([]int64, 4)
			if err := ring.AllGather(ctx, c, heads, []int64{0, int64(len(said))}); err != nil {
				return err
			}
			lengths := []int{int(heads[1]), int(heads[3])}
			if err := ring.AllGatherV(ctx, c, make([]byte, lengths[0]+lengths[1]), []byte(said), lengths); err != nil {
				return err
			}
		}
		conn, err := deaf.Accept() // the other one dials
		if err != nil {
			return err
		}
		defer conn.Close()
		job.Abort(ringtest.Abort{Rank: 1, Host: ringtest.Host, Cause: "signal: killed"})
		<-time.After(2 * failureDeadline) // nobody hangs up
		return nil
	}
	ringtest.All(t, 2, func(rank int) error {
		if rank == 1 {
			return dying()
		}
		begun := time.Now()
		part, err := ring.Split(ctx, comms[0], 0, 0)
		if part != nil || time.Since(begun) > 5*failureDeadline {
			return fmt.Errorf("after %v: %v, %w", time.Since(begun), part, err)
		}
		return wantPeer(err, 1)
	})
}
