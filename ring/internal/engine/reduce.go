package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
)

// reduce combines src of all ranks into dst of the root, as an allreduce whose result stays in the
// root's domain.
func (f *Fabric) reduce(call *collective.Call, dst, src []byte) error {
	r := f.reduction(call)
	root := int(call.Root)
	switch {
	case f.Size() == 1:
		copy(dst, src)
		return nil
	case f.Whole():
		return f.shared.Reduce(collective.Word(call), r.Type, r.Op, pointer(dst), pointer(src), int(call.Count),
			max(1, r.Divisor), f.place(root))
	case f.flows(r):
		return f.all.Reduce(&f.sign, r, dst, src, root)
	}
	home := f.at[root]
	if f.short(collective.Reduce, len(src), home) {
		return f.reduceSmall(call, r, dst, src, home)
	}
	size := f.blockSize(collective.Reduce, len(src), home)
	block := func(lo, hi int) []byte { return dst[lo:hi] }
	if f.rank != root {
		// Of three blocks one is combined, one is on the network, and one is on its way to the
		// root.
		room := f.room(3 * size)
		block = func(lo, hi int) []byte { return room[lo/size%3*size:][:hi-lo] }
	}
	return f.stacked(len(src), size, func(lo, hi int) error {
		return f.reduceShard(call, r, block(lo, hi), src[lo:hi])
	}, func(lo, hi int) step {
		return step{
			kind:   collective.Reduce,
			sign:   &f.sign,
			reduce: r,
			buf:    f.shard(block(lo, hi), r.Type.Size()),
			root:   home,
		}
	}, func(lo, hi int) error {
		if f.domain != home {
			return nil
		}
		return f.spread(call, block(lo, hi), r.Type.Size())
	})
}

// reduceSmall reduces the whole vector at the first leader of each domain, and over the network at
// that of the root's, which gives it to its domain.
func (f *Fabric) reduceSmall(call *collective.Call, r algorithms.Reduction, dst, src []byte, home int) error {
	if f.rank != int(call.Root) {
		dst = f.room(len(src))
	}
	if f.shared == nil {
		copy(dst, src)
	} else if err := f.shared.Reduce(collective.Word(call), r.Type, r.Op, pointer(dst), pointer(src),
		len(src)/r.Type.Size(), 1, 0); err != nil {
		return err
	}
	if f.index == 0 {
		if err := f.peers.Reduce(&f.sign, r, dst, dst, home); err != nil {
			return err
		}
	}
	if f.domain != home || f.shared == nil {
		return nil
	}
	return f.shared.Broadcast(collective.Word(call), pointer(dst), len(dst), 0)
}
