package ring

import "github.com/gorun/gorun/ring/internal/shm"

// none is the rank of nobody, for everyone who has a word for it.
const none = -1

// gather puts every rank's src into its part of dst of the root.
func (f *fabric) gather(call Call, dst, src []byte) error {
	root := int(call.Root)
	if f.rank != root {
		return f.swap(call, root, src, none, nil)
	}
	copy(f.part(dst, root), src)
	for i := 1; i < f.size(); i++ {
		from := (root + i) % f.size()
		if err := f.swap(call, none, nil, from, f.part(dst, from)); err != nil {
			return err
		}
	}
	return nil
}

// scatter gives every rank its part of src of the root.
func (f *fabric) scatter(call Call, dst, src []byte) error {
	root := int(call.Root)
	if f.rank != root {
		return f.swap(call, none, nil, root, dst)
	}
	copy(dst, f.part(src, root))
	for i := 1; i < f.size(); i++ {
		to := (root + i) % f.size()
		if err := f.swap(call, to, f.part(src, to), none, nil); err != nil {
			return err
		}
	}
	return nil
}

// allToAll goes through all distances around the circle, first within the domain, then
// beyond.
func (f *fabric) allToAll(call Call, dst, src []byte) error {
	to := func(rank int) []byte { return src[f.sends[rank]:f.sends[rank+1]] }
	copy(f.part(dst, f.rank), to(f.rank))
	near := f.mine()
	for i := 1; i < len(near); i++ {
		next, last := near[(f.index+i)%len(near)], near[(f.index-i+len(near))%len(near)]
		if err := f.swap(call, next, to(next), last, f.part(dst, last)); err != nil {
			return err
		}
	}
	for i := 1; i < f.size(); i++ {
		next, last := (f.rank+i)%f.size(), (f.rank-i+f.size())%f.size()
		var out, in []byte
		if f.near(next) {
			next = none
		} else {
			out = to(next)
		}
		if f.near(last) {
			last = none
		} else {
			in = f.part(dst, last)
		}
		if err := f.swap(call, next, out, last, in); err != nil {
			return err
		}
	}
	return nil
}

// message sends out to one rank and fills in from another; either may be nobody, and
// both may be this one.
func (f *fabric) message(call Call, to int, out []byte, from int, in []byte) error {
	if to == f.rank {
		copy(in, out)
		return nil
	}
	return f.swap(call, to, out, from, in)
}

// swap sends out to rank to while in is filled by rank from; either may be nobody. What
// is near goes first: ranks that swap at the same time all do it in that order, so
// nobody waits in a circle.
func (f *fabric) swap(call Call, to int, out []byte, from int, in []byte) error {
	farTo, farFrom := to, from
	if f.near(to) || f.near(from) {
		nearTo, nearFrom := shm.None, shm.None
		if f.near(to) {
			nearTo, farTo = f.place(to), none
		}
		if f.near(from) {
			nearFrom, farFrom = f.place(from), none
		}
		same := call
		same.Count = 0 // lengths are compared on the way
		if err := f.shared.Swap(same.sign(), nearTo, pointer(out), len(out), nearFrom, pointer(in), len(in)); err != nil {
			return err
		}
	}
	if farTo == none && farFrom == none {
		return nil
	}
	return f.swapFar(call, farTo, out, farFrom, in)
}

// swapFar goes through the network. What a message is may differ between the two
// directions.
func (f *fabric) swapFar(call Call, to int, out []byte, from int, in []byte) error {
	size := call.Type.size()
	mine, theirs := call, call
	if call.Kind == KindMessage {
		mine.Root, theirs.Root = uint32(f.rank), uint32(max(from, 0))
	}
	if call.Kind != KindReduce { // its parts are nobody's own
		mine.Count, theirs.Count = uint64(len(out)/size), uint64(len(in)/size)
	}
	mine.encode((*[callSize]byte)(&f.sign))
	theirs.encode((*[callSize]byte)(&f.expect))
	return f.all.Swap(&f.sign, &f.expect, to, out, from, in)
}
