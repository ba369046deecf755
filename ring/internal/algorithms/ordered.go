package algorithms

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// A team with an order combines each element of a reduction at one member, from the vectors of all
// members at once. So its bits depend on the order only, and not on what the network costs. Members
// send each other their blocks directly: as many bytes as on the circulant graph, in more messages.

const (
	// orderedWhole is the longest vector, in bytes, of which every member gets all and combines
	// them itself. That is a round of messages less.
	orderedWhole = 16 << 10
	// orderedMost is about the most scratch memory for what all members send at a time.
	orderedMost = 8 << 20
	// orderedSegment is the least that one member sends to another at a time.
	orderedSegment = 64 << 10
)

// Order makes all later reductions of floating point add in the order of a tree of the members,
// which is the same on all of them.
func (t *Team) Order(tree *kernel.Tree) {
	t.order = tree
	t.sources = make([]unsafe.Pointer, t.Size())
}

// ordered reports whether a reduction has an order: integers have the same bits in any.
func (t *Team) ordered(r Reduction) bool { return t.order != nil && r.Type.Float() }

func (t *Team) orderedAllReduce(sign *flow.Sign, r Reduction, dst, src []byte) error {
	n := len(src)
	size := align(n)
	if n <= orderedWhole {
		room := t.room(size * t.Size())
		for member := range t.Size() {
			t.blocks[member] = room[member*size:][:n]
		}
		copy(t.blocks[t.me], src)
		err := t.AllGather(sign, t.blocks)
		if err == nil {
			t.combine(r, dst, room, size, t.blocks[t.me])
		}
		clear(t.blocks)
		return err
	}
	elem := r.Type.Size()
	own := Span(dst, elem, t.me, t.Size())
	block := func(member int) []byte { return Span(src, elem, member, t.Size()) }
	room := t.room(t.orderedRoom(block))
	if err := t.orderedScatter(sign, r, own, room, block); err != nil {
		return err
	}
	for member := range t.Size() {
		t.blocks[member] = Span(dst, elem, member, t.Size())
	}
	err := t.AllGather(sign, t.blocks)
	clear(t.blocks)
	return err
}

func (t *Team) orderedReduce(sign *flow.Sign, r Reduction, dst, src []byte, root int) error {
	elem := r.Type.Size()
	block := func(member int) []byte { return Span(src, elem, member, t.Size()) }
	length := len(block(t.me))
	room := t.room(align(length) + t.orderedRoom(block))
	own := room[:length]
	if err := t.orderedScatter(sign, r, own, room[align(length):], block); err != nil {
		return err
	}
	if t.me != root {
		return t.give(sign, own, root)
	}
	copy(Span(dst, elem, root, t.Size()), own)
	for i := 1; i < t.Size(); i++ {
		from := t.away(i)
		if err := t.take(sign, Span(dst, elem, from, t.Size()), from); err != nil {
			return err
		}
	}
	return nil
}

// orderedRoom returns the scratch memory that orderedScatter needs, in bytes.
func (t *Team) orderedRoom(block func(member int) []byte) int { return t.Size() * t.orderedStep(block) }

// orderedStep returns how many bytes of its block each member combines at a time, at most.
func (t *Team) orderedStep(block func(member int) []byte) int {
	return min(align(t.longest(block)), max(orderedSegment, orderedMost/t.Size()&^63))
}

func (t *Team) longest(block func(member int) []byte) int {
	most := 0
	for member := range t.Size() {
		most = max(most, len(block(member)))
	}
	return most
}

// orderedScatter gives each member its block of the vectors, and combines what all members have for
// this one into dst, which may be this member's own block. Room has orderedRoom.
func (t *Team) orderedScatter(sign *flow.Sign, r Reduction, dst, room []byte, block func(member int) []byte) error {
	longest := t.longest(block)
	step := t.orderedStep(block)
	for lo := 0; lo < longest; lo += step {
		into := within(dst, lo, lo+step)
		for i := 1; i < t.Size(); i++ {
			to := t.away(i)
			from := t.away(-i)
			out := within(block(to), lo, lo+step)
			if err := t.Swap(sign, nil, to, out, from, room[from*step:][:len(into)]); err != nil {
				return err
			}
		}
		t.combine(r, into, room, step, within(block(t.me), lo, lo+step))
	}
	return nil
}

// combine combines the vectors that lie in room, each so many bytes after that of the member before
// it, into dst. This member's own is apart.
func (t *Team) combine(r Reduction, dst, room []byte, apart int, own []byte) {
	if len(dst) == 0 {
		return
	}
	for member := range t.sources {
		t.sources[member] = unsafe.Pointer(&room[member*apart])
	}
	t.sources[t.me] = unsafe.Pointer(&own[0])
	count := len(dst) / r.Type.Size()
	into := unsafe.Pointer(&dst[0])
	t.order.Reduce(r.Type, r.Op, into, t.sources, count)
	if r.Divisor > 1 {
		t.kernels.Divide(r.Type, into, into, count, r.Divisor)
	}
	clear(t.sources)
}
