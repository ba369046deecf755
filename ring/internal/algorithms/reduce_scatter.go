package algorithms

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// ReduceScatter leaves in dst the combination of all members' part for this one.
// parts[i] is this member's part for member i. Parts are not changed, but dst may be this
// member's own.
func (t *Team) ReduceScatter(sign *flow.Sign, r Reduction, dst []byte, parts [][]byte) error {
	if t.alone(r, dst, parts[0]) {
		return nil
	}
	if t.ordered(r) {
		block := func(member int) []byte { return parts[member] }
		return t.orderedScatter(sign, r, dst, t.room(t.orderedRoom(block)), block)
	}
	if t.choose(collective.ReduceScatter, total(parts), 0) == Circulant {
		return t.scatterParts(sign, r, dst, parts)
	}
	longest := 0
	for _, p := range parts {
		longest = max(longest, len(p))
	}
	segment := t.cost.scatterSegment(t.Size())
	for lo := 0; lo == 0 || lo < longest; lo += segment {
		if err := t.ringScatter(sign, r, dst, parts, lo, min(lo+segment, longest)); err != nil {
			return err
		}
	}
	return nil
}

// ringScatter reduces the bytes from lo to hi of each part. The sum of a part begins at the
// member after its owner and goes around to it; sums of others are relayed through scratch
// memory.
func (t *Team) ringScatter(sign *flow.Sign, r Reduction, dst []byte, parts [][]byte, lo, hi int) error {
	n := t.Size()
	room := t.room((n - 2) * align(hi-lo))
	f := t.begin(sign, t.away(1), t.away(-1))
	lead(f, within(parts[t.away(-1)], lo, hi))
	for step := range n - 1 {
		with := within(parts[t.away(-2-step)], lo, hi)
		if step == n-2 {
			f.Recv = append(f.Recv, flow.Part{Into: within(dst, lo, hi), With: with, Divisor: r.Divisor})
			break
		}
		relay(f, flow.Part{Into: room[:len(with)], With: with})
		room = room[align(len(with)):]
	}
	return t.run(f)
}

// within returns the bytes of b from lo to hi, as far as there are any.
func within(b []byte, lo, hi int) []byte { return b[min(lo, len(b)):min(hi, len(b))] }

// scatterParts does the circulant reduce-scatter, with partial sums in scratch memory.
func (t *Team) scatterParts(sign *flow.Sign, r Reduction, dst []byte, parts [][]byte) error {
	size := 0
	for i := range parts {
		t.blocks[i] = parts[t.away(i)]
		t.offs[i] = size
		size += align(len(t.blocks[i]))
	}
	defer clear(t.blocks)
	room := t.room(size)
	return t.scatter(sign, r, func(i int) []byte {
		if i == 0 {
			return dst
		}
		return room[t.offs[i]:][:len(t.blocks[i])]
	})
}
