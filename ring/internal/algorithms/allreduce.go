package algorithms

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// Reduction describes how vectors are combined: as elements of Type with Op, and divided by
// Divisor at the end if it is more than 1.
type Reduction struct {
	Type    kernel.DType
	Op      kernel.Op
	Divisor int
}

// AllReduce leaves in dst, on every member, the combination of all members' src. They
// have the same length; src may be dst, and otherwise shares nothing with it. All members
// get the same bits.
func (t *Team) AllReduce(sign *flow.Sign, r Reduction, dst, src []byte) error {
	t.flow.Type, t.flow.Op = r.Type, r.Op
	if t.Size() == 1 {
		copy(dst, src)
		t.divide(r, dst)
		return nil
	}
	switch Pick(t.Size(), len(src)) {
	case Doubling:
		return t.doubling(sign, r, dst, src)
	case Circulant:
		return t.circulant(sign, r, dst, src)
	}
	return t.ring(sign, r, dst, src)
}

// ring sends every block around twice: in the first round members add their parts, in the
// second the block is done. Block me is sent first; all others are relayed as they arrive.
func (t *Team) ring(sign *flow.Sign, r Reduction, dst, src []byte) error {
	n, elem := t.Size(), r.Type.Size()
	f := t.begin(sign, t.away(1), t.away(-1))
	lead(f, Span(src, elem, t.me, n))
	for step := range 2 * (n - 1) {
		block := t.away(-1 - step)
		part := flow.Part{Into: Span(dst, elem, block, n)}
		if step < n-1 {
			part.With = Span(src, elem, block, n)
		}
		if step == n-2 {
			part.Divisor = r.Divisor
		}
		relay(f, part)
	}
	f.Send = f.Send[:len(f.Send)-1] // the last block has arrived at its origin
	return t.run(f)
}

// circulant does a reduce-scatter into dst and an all-gather. Block i of the comments is
// the one that member me+i is responsible for.
func (t *Team) circulant(sign *flow.Sign, r Reduction, dst, src []byte) error {
	for i := range t.Size() {
		t.blocks[i] = t.span(src, r, i)
	}
	err := t.scatter(sign, r, func(i int) []byte { return t.span(dst, r, i) })
	if err == nil {
		err = t.gather(sign, func(i int) []byte { return t.span(dst, r, i) })
	}
	clear(t.blocks)
	return err
}

// span returns block i, counted from this member's own.
func (t *Team) span(vector []byte, r Reduction, i int) []byte {
	return Span(vector, r.Type.Size(), t.away(i), t.Size())
}

// scatter combines t.blocks, which begin with this member's own, into the memory that
// into names: all but the first go away, in ever shorter hops, and sums come in their
// place. At the end block 0 is finished, in into(0).
func (t *Team) scatter(sign *flow.Sign, r Reduction, into func(i int) []byte) error {
	for k := len(t.skips) - 2; k >= 0; k-- {
		near, far := t.skips[k], t.skips[k+1]
		f := t.begin(sign, t.away(near), t.away(-near))
		for i := near; i < far; i++ {
			lead(f, t.blocks[i])
			part := flow.Part{Into: into(i - near), With: t.blocks[i-near]}
			if k == 0 {
				part.Divisor = r.Divisor
			}
			f.Recv = append(f.Recv, part)
			t.blocks[i-near] = part.Into
		}
		if err := t.run(f); err != nil {
			return err
		}
	}
	return nil
}

// gather brings the finished blocks of all members into the memory that at names, where
// this member's own is number 0, in ever longer hops.
func (t *Team) gather(sign *flow.Sign, at func(i int) []byte) error {
	for k := range len(t.skips) - 1 {
		near, far := t.skips[k], t.skips[k+1]
		f := t.begin(sign, t.away(-near), t.away(near))
		for i := near; i < far; i++ {
			lead(f, at(i-near))
			f.Recv = append(f.Recv, flow.Part{Into: at(i)})
		}
		if err := t.run(f); err != nil {
			return err
		}
	}
	return nil
}

func (t *Team) divide(r Reduction, b []byte) {
	if r.Divisor > 1 && len(b) > 0 {
		p := unsafe.Pointer(&b[0])
		t.kernels.Divide(r.Type, p, p, len(b)/r.Type.Size(), r.Divisor)
	}
}
