package kernel

import (
	"math/bits"
	"slices"
	"unsafe"
)

// Tree combines the vectors of ranks by pairs, in an order that depends on the ranks' numbers only.
// The ranks from lo to hi are the first 2^k of them and the others, where 2^k is the largest power
// of two below their number, and each of the two halves is combined and rounded before. So ranks
// whose numbers are such a half may combine theirs first, elsewhere, and the result has the same
// bits.
//
// It has scratch memory, and serves one call at a time.
type Tree struct {
	kernels Set
	starts  []int // first rank of each source, and the number of ranks
	room    []byte
	pair    [2]unsafe.Pointer
}

// treePiece is what is combined at a time, in bytes: small, so that sums stay in the cache.
const treePiece = 4 << 10

// NewTree returns the tree of sources that begin at the given ranks, of which the last one is the
// number of all ranks. It is nil if the ranks of some source are not one half of the tree, or of
// another half.
func NewTree(kernels Set, starts []int) *Tree {
	t := &Tree{kernels: kernels, starts: starts}
	if !t.splits(0, len(starts)-1) {
		return nil
	}
	t.room = make([]byte, 2*bits.Len(uint(len(starts)))*treePiece)
	return t
}

// Ranks returns the starts of n sources that are a rank each.
func Ranks(n int) []int {
	starts := make([]int, n+1)
	for i := range starts {
		starts[i] = i
	}
	return starts
}

// splits reports whether the sources from first to last can be combined by pairs.
func (t *Tree) splits(first, last int) bool {
	if last-first == 1 {
		return true
	}
	middle, found := t.middle(first, last)
	return found && t.splits(first, middle) && t.splits(middle, last)
}

// middle returns where the second half of the sources from first to last begins.
func (t *Tree) middle(first, last int) (source int, found bool) {
	ranks := t.starts[last] - t.starts[first]
	half := 1 << (bits.Len(uint(ranks-1)) - 1)
	return slices.BinarySearch(t.starts, t.starts[first]+half)
}

// Reduce is [Set.Reduce] in the order of the tree.
func (t *Tree) Reduce(typ Type, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, n int) {
	if len(srcs) <= 2 {
		t.kernels.Reduce(typ, op, dst, srcs, n)
		return
	}
	total := n * typ.Size()
	for at := 0; at < total; at += treePiece {
		w := treeWork{
			typ:  typ,
			op:   op,
			srcs: srcs,
			at:   at,
			n:    min(treePiece, total-at) / typ.Size(),
		}
		t.combine(&w, unsafe.Add(dst, at), 0, len(srcs), 0)
	}
	clear(t.pair[:]) // do not keep the caller's memory alive
}

// treeWork is a piece of the sources: n elements from byte at.
type treeWork struct {
	typ   Type
	op    Op
	srcs  []unsafe.Pointer
	at, n int
}

// combine combines the sources from first to last, two or more, into dst. It reads all of a piece
// before it writes to dst, which may be that of a source.
func (t *Tree) combine(w *treeWork, dst unsafe.Pointer, first, last, depth int) {
	middle, _ := t.middle(first, last)
	a := t.half(w, first, middle, depth, 0)
	b := t.half(w, middle, last, depth, 1)
	t.pair = [2]unsafe.Pointer{a, b}
	t.kernels.Reduce(w.typ, w.op, dst, t.pair[:], w.n)
}

// half returns where the sources from first to last are combined.
func (t *Tree) half(w *treeWork, first, last, depth, side int) unsafe.Pointer {
	if last-first == 1 {
		return unsafe.Add(w.srcs[first], w.at)
	}
	dst := unsafe.Pointer(&t.room[(2*depth+side)*treePiece])
	t.combine(w, dst, first, last, depth+1)
	return dst
}
