package ring_test

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ring"
)

// Ranks that chose algorithms by unlike costs would wait for each other forever.
func TestRanksAgreeOnCosts(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		first := comms[0].Cost()
		if l.transport == "shm" {
			if first != nil {
				t.Errorf("ranks that share memory measured %+v", *first)
			}
			return
		}
		t.Logf("%+v", *first)
		if first.Alpha <= 0 || first.Overhead < 0 || first.Beta <= 0 || first.Slow < first.Beta || first.Gamma <= 0 ||
			first.Slowest < 0 || first.Slowest >= l.size {
			t.Errorf("measured %+v", *first)
		}
		for rank, c := range comms {
			check.That(t, *c.Cost() == *first, "rank %d has %+v, rank 0 %+v", rank, *c.Cost(), *first)
		}
		// A part has the costs of the whole. Its slowest rank is numbered anew, or is not in it.
		for _, part := range split(t, comms, func(c *ring.Comm) (color, key int) { return c.Rank() % 2, 0 }) {
			cost := part.Cost()
			if cost == nil {
				continue // its ranks share memory
			}
			if cost.Alpha != first.Alpha || cost.Beta != first.Beta || cost.Slowest >= part.Size() ||
				cost.Slow != first.Slow && cost.Slow != first.Beta {
				t.Errorf("a part has %+v, the whole %+v", *cost, *first)
			}
		}
	})
}
