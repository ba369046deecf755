package engine

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
)

// In rank order, each element of a reduction is combined from all ranks at once, by one rank, as
// shared memory does it. So its bits depend on the ranks' numbers only, and not on their hosts. It
// costs bytes: what ranks of one domain send to another one is not combined before.

const (
	// orderedWhole is the longest vector, in bytes, of which every rank gets all and combines them
	// itself. That is a round of messages less.
	orderedWhole = 16 << 10
	// orderedRoom is about the scratch memory that holds what all ranks send at a time.
	orderedRoom = 8 << 20
	// orderedSegment is the least that one rank sends to another at a time.
	orderedSegment = 64 << 10
)

// ReduceInRankOrder makes the results of all reductions independent of the layout. All ranks call
// it, before the first collective.
func (f *Fabric) ReduceInRankOrder() {
	f.inOrder = true
	f.sources = make([]unsafe.Pointer, f.Size())
}

// ordered reports whether a reduction must be made here, in rank order. Shared memory does it
// anyway, and integers have the same bits in any order.
func (f *Fabric) ordered(r algorithms.Reduction) bool {
	return f.inOrder && !f.Whole() && r.Type.Float()
}

func (f *Fabric) allReduceOrdered(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	n := len(src)
	if n <= orderedWhole {
		room := f.room(n * f.Size())
		for rank := range f.Size() + 1 {
			f.offs[rank] = rank * n
		}
		if err := f.allGather(call, room, src); err != nil {
			return err
		}
		f.combine(r, dst, room, n)
		return nil
	}
	f.share(n, r.Type.Size())
	own := f.part(dst, f.rank)
	if err := f.combineParts(call, r, own, src, f.room(f.orderedBytes())); err != nil {
		return err
	}
	return f.allGather(call, dst, own)
}

func (f *Fabric) reduceOrdered(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	root := int(call.Root)
	f.share(len(src), r.Type.Size())
	length := f.offs[f.rank+1] - f.offs[f.rank]
	room := f.room(align(length) + f.orderedBytes())
	own := room[:length]
	if err := f.combineParts(call, r, own, src, room[align(length):]); err != nil {
		return err
	}
	if f.rank != root {
		return f.swapAlike(call, root, own, none, nil)
	}
	copy(f.part(dst, root), own)
	for i := 1; i < f.Size(); i++ {
		from := (root + i) % f.Size()
		if err := f.swapAlike(call, none, nil, from, f.part(dst, from)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fabric) reduceScatterOrdered(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	return f.combineParts(call, r, dst, src, f.room(f.orderedBytes()))
}

// share cuts a vector of n bytes into a part for each rank.
func (f *Fabric) share(n, elem int) {
	for rank := range f.Size() {
		f.offs[rank], _ = algorithms.Bounds(n, elem, rank, f.Size())
	}
	f.offs[f.Size()] = n
}

// orderedBytes returns the scratch memory that combineParts needs.
func (f *Fabric) orderedBytes() int { return f.Size() * f.orderedStep() }

// orderedStep returns how many bytes of its part each rank combines at a time, at most.
func (f *Fabric) orderedStep() int { return max(orderedSegment, orderedRoom/f.Size()&^63) }

// combineParts gives each rank its part of src, as f.offs cuts it, and combines what all ranks have
// for this one into dst, which may be this rank's own part. Room has orderedBytes.
func (f *Fabric) combineParts(call *collective.Call, r algorithms.Reduction, dst, src, room []byte) error {
	longest := 0
	for rank := range f.Size() {
		longest = max(longest, len(f.part(src, rank)))
	}
	step := f.orderedStep()
	for lo := 0; lo < longest; lo += step {
		into := within(dst, lo, lo+step)
		n := len(into)
		copy(room[f.rank*n:], within(f.part(src, f.rank), lo, lo+step))
		err := f.eachPair(func(to, from int) error {
			var out, in []byte
			if to != none {
				out = within(f.part(src, to), lo, lo+step)
			}
			if from != none {
				in = room[from*n:][:n]
			}
			return f.swapAlike(call, to, out, from, in)
		})
		if err != nil {
			return err
		}
		f.combine(r, into, room, n)
	}
	return nil
}

// within returns the bytes of b from lo to hi, as far as there are any.
func within(b []byte, lo, hi int) []byte { return b[min(lo, len(b)):min(hi, len(b))] }

// combine combines vectors of n bytes, which lie one after the other in room by rank, into dst.
func (f *Fabric) combine(r algorithms.Reduction, dst, room []byte, n int) {
	if n == 0 {
		return
	}
	for rank := range f.sources {
		f.sources[rank] = pointer(room[rank*n:])
	}
	count := n / r.Type.Size()
	f.kernels.Reduce(r.Type, r.Op, pointer(dst), f.sources, count)
	if r.Divisor > 1 {
		f.kernels.Divide(r.Type, pointer(dst), pointer(dst), count, r.Divisor)
	}
}

// swapAlike is swap for parts of one call whose lengths both ends know.
func (f *Fabric) swapAlike(call *collective.Call, to int, out []byte, from int, in []byte) error {
	return f.swapBy(to, from, func(to, from int) error {
		return f.shared.Swap(collective.Word(call), to, pointer(out), len(out), from, pointer(in), len(in))
	}, func(to, from int) error {
		return f.all.Swap(&f.sign, nil, to, out, from, in)
	})
}

// align rounds up to whole cache lines.
func align(n int) int { return (n + 63) &^ 63 }
