package engine

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/shm"
)

// none stands for no rank.
const none = -1

// message sends out to one rank while in is filled by another. Either may be none; both may be
// this rank.
func (f *Fabric) message(call *collective.Call, to int, out []byte, from int, in []byte) error {
	if to == f.rank {
		copy(in, out)
		return nil
	}
	return f.swap(call, to, out, from, in)
}

// swap sends out to rank to while in is filled by rank from; either may be none.
func (f *Fabric) swap(call *collective.Call, to int, out []byte, from int, in []byte) error {
	// Ranks of this domain come first on every rank, so that no circle of waits can form.
	farTo := to
	farFrom := from
	if f.Near(to) || f.Near(from) {
		nearTo := shm.None
		nearFrom := shm.None
		if f.Near(to) {
			nearTo = f.place(to)
			farTo = none
		}
		if f.Near(from) {
			nearFrom = f.place(from)
			farFrom = none
		}
		same := *call
		same.Count = 0 // lengths are compared on the way
		if err := f.shared.Swap(collective.Word(&same), nearTo, pointer(out), len(out), nearFrom, pointer(in),
			len(in)); err != nil {
			return err
		}
	}
	if farTo == none && farFrom == none {
		return nil
	}
	return f.swapFar(call, farTo, out, farFrom, in)
}

// swapFar exchanges over the network. The two directions may carry different calls.
func (f *Fabric) swapFar(call *collective.Call, to int, out []byte, from int, in []byte) error {
	size := call.Type.Size()
	mine := *call
	theirs := *call
	if call.Kind == collective.Message {
		mine.Root = uint32(f.rank)
		theirs.Root = uint32(max(from, 0))
	}
	mine.Count = uint64(len(out) / size)
	theirs.Count = uint64(len(in) / size)
	collective.Encode(&mine, &f.sign)
	collective.Encode(&theirs, &f.expect)
	return f.all.Swap(&f.sign, &f.expect, to, out, from, in)
}
