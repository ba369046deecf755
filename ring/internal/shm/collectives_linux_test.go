package shm

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// noise returns n bytes determined by seed.
func noise(seed uint64, n int) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(pointer(table()[37*seed:])), n))
}

func at(b []byte, r Region) unsafe.Pointer {
	if r.Len == 0 {
		return nil
	}
	return unsafe.Pointer(&b[r.Off])
}

// everyCall makes each kind of call once on vectors of so many elements, and fails if a result is
// wrong. It calls after after each call.
func everyCall(g *Group, round int, lengths []int, after func(what string)) error {
	for _, n := range lengths {
		regions := []Region{{0, 4}, {4, 0}, {8, 4 * (n - 2)}}
		all := float32(3 * round)
		fill := func() []float32 { return slices.Repeat([]float32{float32(round)}, n) }
		calls := []struct {
			what string
			want float32 // at the end of the vector
			call func(v []float32) error
		}{
			{"allreduce", all, func(v []float32) error {
				return g.AllReduce(1, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 1)
			}},
			{"reduce", []float32{float32(round), all}[g.rank/2], func(v []float32) error {
				return g.Reduce(2, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 1, 2)
			}},
			{"reduce-scatter", []float32{float32(round), all}[g.rank/2], func(v []float32) error {
				return g.ReduceScatter(3, kernel.F32, kernel.Sum, unsafe.Pointer(&v[regions[g.rank].Off/4]), pointer(v),
					regions, 1)
			}},
			{"all-gather", float32(round) + 2, func(v []float32) error {
				v[n-1] += float32(g.rank)
				return g.AllGatherV(4, pointer(v), unsafe.Pointer(&v[regions[g.rank].Off/4]), regions)
			}},
			{"broadcast", float32(round) + 1, func(v []float32) error {
				v[n-1] += float32(g.rank)
				return g.Broadcast(5, pointer(v), 4*n, 1)
			}},
			{"barrier", float32(round), func([]float32) error { return g.Barrier(6) }},
			{"swap", float32(round + (g.rank+1)%3), func(v []float32) error {
				out := slices.Repeat([]float32{float32(round + g.rank)}, n)
				return g.Swap(7, (g.rank+2)%3, pointer(out), 4*n, (g.rank+1)%3, pointer(v), 4*n)
			}},
		}
		for _, c := range calls {
			v := fill()
			if err := c.call(v); err != nil {
				return fmt.Errorf("%s of %d elements: %w", c.what, n, err)
			}
			if v[n-1] != c.want {
				return fmt.Errorf("%s of %d elements: rank %d has %v, want %v", c.what, n, g.rank, v[n-1], c.want)
			}
			after(c.what)
		}
	}
	return nil
}

func TestCountersWrapAround(t *testing.T) {
	var set sync.WaitGroup
	set.Add(3)
	each(t, 3, func(g *Group) {
		own := g.seg.controls[g.rank]
		near := ^uint32(0) - 40
		g.block = near
		g.message = near
		for _, c := range []*counter{&own.in, &own.out, &own.done, &own.cell[0], &own.cell[1], &own.bell} {
			c.value.Store(near)
		}
		for q := range g.size {
			g.posted[q] = near
			g.taken[q] = near
			g.seg.pair(g.rank, q).posted.Store(near)
			g.seg.pair(g.rank, q).taken.Store(near)
		}
		set.Done()
		set.Wait()
		for round := range 10 {
			if err := everyCall(g, round, []int{8, 3*slotSize/4 + 3}, func(string) {}); err != nil {
				t.Errorf("round %d: %v", round, err)
				return
			}
		}
		check.That(t, g.block < near && g.message < near && g.posted[(g.rank+2)%3] < near,
			"the counters %d, %d and %d have not wrapped around", g.block, g.message, g.posted)
	})
}

// Calls of all lengths that are made in different ways are right, and leave no counter behind,
// which would be ahead 2^31 blocks later.
func TestNoCounterIsLeftBehind(t *testing.T) {
	each(t, 3, func(g *Group) {
		own := g.seg.controls[g.rank]
		lengths := []int{3, inline / 4, inline/4 + 1, cellSize / 4, cellSize/4 + 1, slotSize / 4, slotSize/4 + 1,
			(slots+1)*slotSize/4 + 3}
		err := everyCall(g, 1, lengths, func(what string) {
			in := own.in.value.Load()
			out := own.out.value.Load()
			done := own.done.value.Load()
			check.That(t, in == g.block && out == g.block && done == g.block,
				"%s: rank %d is at blocks %d, %d, %d of %d", what, g.rank, in, out, done, g.block)
		})
		check.OK(t, err)
	})
}
