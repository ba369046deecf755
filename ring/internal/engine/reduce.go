package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
)

// reduce combines src of all ranks into dst of the root. A short vector is an allreduce that
// only the root keeps; a long one is a reduce-scatter and a gather.
func (f *Fabric) reduce(call *Call, dst, src []byte) error {
	r, root := f.reduction(call), int(call.Root)
	switch {
	case f.Size() == 1:
		copy(dst, src)
		return nil
	case f.Whole():
		return f.shared.Reduce(call.sign(), r.Type, r.Op, pointer(dst), pointer(src), int(call.Count), max(1, r.Divisor), f.place(root))
	}
	if len(src) <= smallStack {
		if f.rank != root {
			dst = f.room(len(src))
		}
		if f.split() {
			return f.all.AllReduce(&f.sign, r, dst, src)
		}
		return f.allReduceSmall(call, r, dst, src)
	}
	// Everybody finishes a part, and the root collects them.
	elem := call.Type.Size()
	f.offs[0] = 0
	for rank := range f.Size() {
		f.offs[rank+1] = f.offs[rank] + len(algorithms.Span(src, elem, rank, f.Size()))
	}
	if n := len(f.part(src, f.rank)); cap(f.own) < n {
		f.own = memory(n)
	}
	mine := f.own[:len(f.part(src, f.rank))]
	if err := f.reduceScatter(call, mine, src); err != nil {
		return err
	}
	return f.gather(call, dst, mine)
}
