package algorithms

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// Reduction describes how vectors are combined: as elements of Type with Op, and divided by
// Divisor at the end if it is more than 1.
type Reduction struct {
	Type    kernel.Type
	Op      kernel.Op
	Divisor int
}

// AllReduce leaves in dst, on every member, the combination of all members' src. They
// have the same length; src may be dst, and otherwise shares nothing with it. All members
// get the same bits.
func (t *Team) AllReduce(sign *flow.Sign, r Reduction, dst, src []byte) error {
	if t.alone(r, dst, src) {
		return nil
	}
	if t.ordered(r) {
		return t.orderedAllReduce(sign, r, dst, src)
	}
	switch t.choose(collective.AllReduce, len(src), 0) {
	case Doubling:
		return t.doubling(sign, r, dst, src)
	case Circulant:
		return t.circulant(sign, r, dst, src)
	}
	return t.ring(sign, r, dst, src)
}

// alone begins a reduction. It does all the work where there is one member.
func (t *Team) alone(r Reduction, dst, src []byte) bool {
	t.flow.Type = r.Type
	t.flow.Op = r.Op
	if t.Size() > 1 {
		return false
	}
	copy(dst, src)
	if r.Divisor > 1 && len(dst) > 0 {
		p := unsafe.Pointer(&dst[0])
		t.kernels.Divide(r.Type, p, p, len(dst)/r.Type.Size(), r.Divisor)
	}
	return true
}

// ring sends every block around twice: in the first round members add their parts, in the
// second the block is done. Block me is sent first; all others are relayed as they arrive.
func (t *Team) ring(sign *flow.Sign, r Reduction, dst, src []byte) error {
	n := t.Size()
	elem := r.Type.Size()
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
	last(f) // the last block has arrived at its origin
	return t.run(f)
}

// circulant does a reduce-scatter into dst and an all-gather.
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

// span returns the block of the member i numbers after this one.
func (t *Team) span(vector []byte, r Reduction, i int) []byte {
	return Span(vector, r.Type.Size(), t.away(i), t.Size())
}
