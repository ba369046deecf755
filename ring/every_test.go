package ring_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// worlds are the ranks of jobs and of parts of jobs, on all kinds of layouts.
func worlds() map[string]func(t *testing.T) []*ring.Comm {
	join := func(transport string, streams int, hosts ...int) func(t *testing.T) []*ring.Comm {
		return func(t *testing.T) []*ring.Comm {
			l := layout{
				transport: transport,
				hosts:     hosts,
				streams:   streams,
				opts:      []ring.Option{ring.WithShards(16 << 10)},
			}
			for _, n := range hosts {
				l.size += n
			}
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
	err := ringtest.Each(len(comms), func(rank int) error {
		color, key := of(comms[rank])
		var err error
		parts[rank], err = ring.Split(ctx, comms[rank], color, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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

// check is one rank's part in a test of a collective: it makes the call on vectors of
// about n elements and says what is wrong.
type check func(c *ring.Comm, n int) error

// at is element i of what rank brings. Sums of it over ranks are exact.
func at(rank, i int) float32 { return float32((rank + 1) * (i%1009 + 1)) }

// total is the sum of element i over all ranks.
func total(c *ring.Comm, i int) float32 { return float32(c.Size() * (c.Size() + 1) / 2 * (i%1009 + 1)) }

func vector(n int, of func(i int) float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = of(i)
	}
	return v
}

// counts are lengths of unlike parts that add up to about n.
func counts(c *ring.Comm, n int) []int {
	all := make([]int, c.Size())
	for rank := range all {
		all[rank] = n / c.Size() * (rank % 3)
	}
	return all
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

// gathered is the concatenation of what all ranks bring, each its own length.
func gathered(counts []int) []float32 {
	var all []float32
	for rank, n := range counts {
		all = append(all, vector(n, func(i int) float32 { return at(rank, i) })...)
	}
	return all
}

// roots are all ranks, or two of them when that would take long.
func roots(c *ring.Comm, n int) []int {
	if n > 20_000 {
		return slices.Compact([]int{c.Size() / 2, c.Size() - 1})
	}
	all := make([]int, c.Size())
	for rank := range all {
		all[rank] = rank
	}
	return all
}

func repeat(c *ring.Comm, n int) []int { return slices.Repeat([]int{n}, c.Size()) }

func begin(counts []int, rank int) int {
	from := 0
	for _, n := range counts[:rank] {
		from += n
	}
	return from
}

func checks() map[string]check {
	return map[string]check{
		"allreduce": func(c *ring.Comm, n int) error {
			src := vector(n, func(i int) float32 { return at(c.Rank(), i) })
			dst := make([]float32, n)
			if err := ring.AllReduceInto(ctx, c, dst, src, ring.Sum); err != nil {
				return err
			}
			if err := ring.AllReduce(ctx, c, src, ring.Sum); err != nil {
				return err
			}
			if err := same(src, dst); err != nil {
				return fmt.Errorf("in place: %w", err)
			}
			return same(dst, vector(n, func(i int) float32 { return total(c, i) }))
		},
		"reduce": func(c *ring.Comm, n int) error {
			for _, root := range roots(c, n) {
				src := vector(n, func(i int) float32 { return at(c.Rank(), i) })
				before := slices.Clone(src)
				dst := make([]float32, n)
				if err := ring.Reduce(ctx, c, dst, src, ring.Sum, root); err != nil {
					return err
				}
				want := make([]float32, n)
				if c.Rank() == root {
					want = vector(n, func(i int) float32 { return total(c, i) })
				}
				if err := same(dst, want); err != nil {
					return fmt.Errorf("root %d: %w", root, err)
				}
				if err := same(src, before); err != nil {
					return fmt.Errorf("src: %w", err)
				}
			}
			return nil
		},
		"reduce-scatter": func(c *ring.Comm, n int) error {
			for _, parts := range [][]int{nil, counts(c, n)} {
				lengths := parts
				if lengths == nil {
					lengths = repeat(c, n/c.Size())
				}
				src := vector(begin(lengths, c.Size()), func(i int) float32 { return at(c.Rank(), i) })
				before := slices.Clone(src)
				dst := make([]float32, lengths[c.Rank()])
				if err := ring.ReduceScatterV(ctx, c, dst, src, parts, ring.Sum); err != nil {
					return err
				}
				from := begin(lengths, c.Rank())
				if err := same(dst, vector(len(dst), func(i int) float32 { return total(c, from+i) })); err != nil {
					return err
				}
				if err := same(src, before); err != nil {
					return fmt.Errorf("src: %w", err)
				}
			}
			return nil
		},
		"allgather": func(c *ring.Comm, n int) error {
			for _, parts := range [][]int{nil, counts(c, n)} {
				lengths := parts
				if lengths == nil {
					lengths = repeat(c, n/c.Size())
				}
				src := vector(lengths[c.Rank()], func(i int) float32 { return at(c.Rank(), i) })
				dst := make([]float32, begin(lengths, c.Size()))
				if err := ring.AllGatherV(ctx, c, dst, src, parts); err != nil {
					return err
				}
				if err := same(dst, gathered(lengths)); err != nil {
					return err
				}
				clear(dst)
				own := dst[begin(lengths, c.Rank()):][:len(src)]
				copy(own, src)
				if err := ring.AllGatherV(ctx, c, dst, own, parts); err != nil {
					return err
				}
				if err := same(dst, gathered(lengths)); err != nil {
					return fmt.Errorf("in place: %w", err)
				}
			}
			return nil
		},
		"broadcast": func(c *ring.Comm, n int) error {
			for _, root := range roots(c, n) {
				buf := vector(n, func(i int) float32 { return at(c.Rank(), i) })
				if err := ring.Broadcast(ctx, c, buf, root); err != nil {
					return err
				}
				if err := same(buf, vector(n, func(i int) float32 { return at(root, i) })); err != nil {
					return fmt.Errorf("root %d: %w", root, err)
				}
			}
			return nil
		},
		"gather and scatter": func(c *ring.Comm, n int) error {
			for _, root := range roots(c, n) {
				for _, parts := range [][]int{nil, counts(c, n)} {
					lengths := parts
					if lengths == nil {
						lengths = repeat(c, n/c.Size())
					}
					src := vector(lengths[c.Rank()], func(i int) float32 { return at(c.Rank(), i) })
					all := make([]float32, begin(lengths, c.Size()))
					want := gathered(lengths)
					if err := ring.GatherV(ctx, c, all, src, parts, root); err != nil {
						return err
					}
					if c.Rank() != root {
						want = make([]float32, len(all))
					}
					if err := same(all, want); err != nil {
						return fmt.Errorf("gather to %d: %w", root, err)
					}
					back := make([]float32, len(src))
					if err := ring.ScatterV(ctx, c, back, all, parts, root); err != nil {
						return err
					}
					if err := same(back, src); err != nil {
						return fmt.Errorf("scatter from %d: %w", root, err)
					}
				}
			}
			return nil
		},
		"alltoall": func(c *ring.Comm, n int) error {
			each := n / c.Size()
			src := vector(each*c.Size(), func(i int) float32 { return at(c.Rank(), i) })
			dst := make([]float32, len(src))
			if err := ring.AllToAll(ctx, c, dst, src); err != nil {
				return err
			}
			return same(dst, vector(len(dst), func(i int) float32 {
				return at(i/max(each, 1), c.Rank()*each+i%max(each, 1))
			}))
		},
		"alltoall of unlike parts": func(c *ring.Comm, n int) error {
			length := func(from, to int) int { return n / c.Size() * ((from + 2*to) % 3) }
			sends := make([]int, c.Size())
			recvs := make([]int, c.Size())
			var src, want []float32
			for rank := range c.Size() {
				sends[rank] = length(c.Rank(), rank)
				recvs[rank] = length(rank, c.Rank())
				src = append(src, vector(sends[rank], func(i int) float32 { return at(c.Rank(), i+rank) })...)
				want = append(want, vector(recvs[rank], func(i int) float32 { return at(rank, i+c.Rank()) })...)
			}
			dst := make([]float32, len(want))
			if err := ring.AllToAllV(ctx, c, dst, src, recvs, sends); err != nil {
				return err
			}
			return same(dst, want)
		},
		"messages": func(c *ring.Comm, n int) error {
			for distance := range c.Size() {
				to := (c.Rank() + distance) % c.Size()
				from := (c.Rank() - distance + c.Size()) % c.Size()
				src := vector(n, func(i int) float32 { return at(c.Rank(), i) })
				dst := make([]float32, n)
				if err := ring.SendRecv(ctx, c, dst, from, src, to); err != nil {
					return err
				}
				if err := same(dst, vector(n, func(i int) float32 { return at(from, i) })); err != nil {
					return fmt.Errorf("from %d: %w", from, err)
				}
			}
			// down a line, one after the other
			v := vector(n, func(i int) float32 { return at(0, i) })
			if c.Rank() > 0 {
				v = make([]float32, n)
				if err := ring.Recv(ctx, c, v, c.Rank()-1); err != nil {
					return err
				}
			}
			if c.Rank() < c.Size()-1 {
				if err := ring.Send(ctx, c, v, c.Rank()+1); err != nil {
					return err
				}
			}
			return same(v, vector(n, func(i int) float32 { return at(0, i) }))
		},
		"barrier": func(c *ring.Comm, _ int) error { return ring.Barrier(ctx, c) },
	}
}

func TestEveryCollectiveOnEveryLayout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, join := range worlds() {
		t.Run(name, func(t *testing.T) {
			comms := join(t)
			for _, n := range []int{0, 1, 100, 12_000, 40_001} {
				for what, learn := range checks() {
					err := ringtest.Each(len(comms), func(rank int) error { return learn(comms[rank], n) })
					if err != nil {
						t.Fatalf("%s of %d: %v", what, n, err)
					}
				}
			}
		})
	}
}
