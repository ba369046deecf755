package ring_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// worlds are the ranks of jobs and of parts of jobs, on all kinds of layouts.
func worlds() map[string]func(t *testing.T) []*ring.Comm {
	join := func(transport string, streams int, hosts ...int) func(t *testing.T) []*ring.Comm {
		return func(t *testing.T) []*ring.Comm {
			l := stacked(hosts)
			l.transport = transport
			l.streams = streams
			l.opts = []ring.Option{ring.WithShards(16 << 10)}
			return l.join(t, l.job(t))
		}
	}
	return map[string]func(t *testing.T) []*ring.Comm{
		"alone":            join("auto", 1, 1),
		"shm/2":            join("shm", 1, 2),
		"shm/3":            join("shm", 1, 3),
		"tcp/2":            join("tcp", 1, 2),
		"tcp/5":            join("tcp", 1, 5),
		"stacked/2+2":      join("auto", 1, 2, 2),
		"stacked/3+1":      join("auto", 1, 3, 1),
		"stacked/1+2+2":    join("auto", 1, 1, 2, 2),
		"stacked/2+3":      join("auto", 1, 2, 3),
		"interleaved/2+2":  interleaved(join("auto", 1, 2, 2)),
		"interleaved/3+2":  interleaved(join("auto", 1, 3, 2)),
		"three streams/2":  join("tcp", 3, 2),
		"two streams/2+1":  join("auto", 2, 2, 1),
		"part of a larger": part(join("auto", 1, 3, 2)),
		"in order/5":       inRankOrder(1, 1, 1, 1, 1),
		"in order/3+2":     inRankOrder(3, 2),
		"in order/part":    part(interleaved(inRankOrder(2, 2))),
	}
}

// interleaved numbers the ranks of base by their LocalRank.
func interleaved(base func(t *testing.T) []*ring.Comm) func(t *testing.T) []*ring.Comm {
	return func(t *testing.T) []*ring.Comm {
		return split(t, base(t), func(c *ring.Comm) (color, key int) { return 0, c.LocalRank() })
	}
}

// part is all ranks of base but the first.
func part(base func(t *testing.T) []*ring.Comm) func(t *testing.T) []*ring.Comm {
	return func(t *testing.T) []*ring.Comm {
		parts := split(t, base(t), func(c *ring.Comm) (color, key int) { return min(c.Rank(), 1) - 1, 0 })
		return parts[1:]
	}
}

// split makes all comms call Split, and returns the parts in the order of their ranks.
// Ranks without a part come first, as nil.
func split(t *testing.T, comms []*ring.Comm, of func(c *ring.Comm) (color, key int)) []*ring.Comm {
	t.Helper()
	parts := make([]*ring.Comm, len(comms))
	ringtest.All(t, len(comms), func(rank int) error {
		color, key := of(comms[rank])
		var err error
		parts[rank], err = ring.Split(ctx, comms[rank], color, key)
		return err
	})
	t.Cleanup(func() { closeAll(parts) })
	number := func(c *ring.Comm) int {
		if c == nil {
			return -1
		}
		return c.Rank()
	}
	slices.SortStableFunc(parts, func(a, b *ring.Comm) int { return number(a) - number(b) })
	return parts
}

// at is element i of what rank brings. Sums of it over ranks are exact.
func at(rank, i int) float32 { return float32((rank + 1) * (i%1009 + 1)) }

// sumAt is the sum of element i over all ranks.
func sumAt(c *ring.Comm, i int) float32 { return float32(c.Size() * (c.Size() + 1) / 2 * (i%1009 + 1)) }

func vector(n int, of func(i int) float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = of(i)
	}
	return v
}

func same(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("element %d of %d is %v, want %v", i, len(want), got[i], want[i])
		}
	}
	return nil
}

// everyRank returns the numbers of size ranks.
func everyRank(size int) (all []int) {
	for rank := range size {
		all = append(all, rank)
	}
	return all
}

// everyForm makes all calls of about n elements on comms, from and to some roots, and checks them.
func everyForm(t *testing.T, comms []*ring.Comm, n int) {
	t.Helper()
	size := len(comms)
	for _, f := range forms() {
		roots := []int{0}
		switch {
		case f.rooted() && n > 20_000:
			roots = slices.Compact([]int{size / 2, size - 1})
		case f.rooted():
			roots = everyRank(size)
		}
		s := position{n: n}
		if f.in(position{size: size, n: 1}) > 1 || f.out(position{size: size, n: 1}) > 1 {
			s.n /= size
		}
		for _, s.root = range roots {
			for _, do := range []caller{synchronously, byName} {
				must.OK(t, f.byAll(comms, s, do), f.name, "of", n, "root", s.root)
			}
		}
	}
}

func TestEveryCollectiveOnEveryLayout(t *testing.T) {
	must.HaveTime(t)
	for name, join := range worlds() {
		t.Run(name, func(t *testing.T) {
			comms := join(t)
			for _, n := range []int{0, 1, 100, 12_000, 40_001} {
				everyForm(t, comms, n)
			}
		})
	}
}

// Every algorithm, with many ranks, and with flows that are cut into stripes and carry checksums or
// are encrypted.
func TestEveryAlgorithm(t *testing.T) {
	for _, name := range []string{"doubling", "tree", "circulant", "ring"} {
		algorithm := "RING_ALGORITHM=" + name
		rows := map[string]layout{
			"many ranks": stacked([]int{1, 1, 1, 1, 1}, algorithm),
			"stacked":    stacked([]int{2, 2, 2}, algorithm),
		}
		for _, guard := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
			l := stacked([]int{1, 1, 1}, algorithm, guard)
			l.streams = 3
			rows["stripes/"+guard] = l
		}
		for row, l := range rows {
			t.Run(name+"/"+row, func(t *testing.T) {
				comms := l.join(t, l.job(t))
				for _, n := range []int{1, 3000, 120_000} {
					if n < 120_000 || l.streams > 1 && !testing.Short() {
						everyForm(t, comms, n)
					}
				}
			})
		}
	}
}

func TestSixtyFourRanks(t *testing.T) {
	must.HaveTime(t)
	for _, transport := range []string{"tcp", "shm"} {
		t.Run(transport, func(t *testing.T) {
			l := over(transport, 64)
			comms := l.join(t, l.job(t))
			for _, n := range []int{1, 5000, 100_000} {
				must.OK(t, specOf("allreduce").byAll(comms, position{n: n}, synchronously))
			}
		})
	}
}
