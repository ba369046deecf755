package ring

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// Whatever the sizes, batches, commits and restores, each pass deals each sample once, in shares
// that differ by one at most, and in an order that only the seed and the pass decide.
func TestSamplerTakesEachSampleOnce(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := random.IntN(50)
		s := NewSampler(n, seed)
		var orders [3][]int
		for pass := range orders {
			var dealt, committed []int
			for {
				if random.IntN(4) == 0 {
					s.Save()
					committed = slices.Clone(dealt)
				}
				if random.IntN(8) == 0 && s.saved.pass == pass {
					s.Restore()
					dealt = slices.Clone(committed)
				}
				size := 1 + random.IntN(5)
				batch := 1 + random.IntN(12)
				shares := make([][]int, size)
				all := 0
				least := n
				most := 0
				for rank := range size { // as each rank would
					other := *s
					if rank == size-1 {
						shares[rank], all = s.deal(rank, size, batch)
					} else {
						shares[rank], all = other.deal(rank, size, batch)
					}
					least = min(least, len(shares[rank]))
					most = max(most, len(shares[rank]))
				}
				got := slices.Concat(shares...)
				must.That(t, len(got) == all && all == min(batch, n-len(dealt)) && most-least <= 1 &&
					s.Dealt() == len(dealt)+all, "seed %d: dealt %v of a batch of %d, %d in all, after %d of %d", seed,
					shares, batch, all, len(dealt), n)
				if dealt = append(dealt, got...); all == 0 {
					break
				}
			}
			orders[pass] = slices.Clone(dealt)
			slices.Sort(dealt)
			must.That(t, len(slices.Compact(dealt)) == n && s.Pass() == pass,
				"seed %d: pass %d (%d) dealt %d of %d samples", seed, pass, s.Pass(), len(dealt), n)
			whole, _ := (&Sampler{samples: n, seed: seed, now: progress{pass: pass}}).deal(0, 1, n)
			must.That(t, slices.Equal(whole, orders[pass]),
				"seed %d: pass %d is %v in parts and %v at once", seed, pass, orders[pass], whole)
			s.NextPass()
		}
		if n > 10 && slices.Equal(orders[0], orders[1]) {
			t.Errorf("two passes have one order: %v", orders[0])
		}
	}
}
