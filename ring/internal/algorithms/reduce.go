package algorithms

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// Reduce leaves in dst of member root the combination of all members' src. They have the
// same length on all members, but dst is used at the root only. Src may be dst, and is not
// changed elsewhere.
func (t *Team) Reduce(sign *flow.Sign, r Reduction, dst, src []byte, root int) error {
	if t.alone(r, dst, src) {
		return nil
	}
	if t.ordered(r) {
		return t.orderedReduce(sign, r, dst, src, root)
	}
	place := t.wrap(t.me - root)
	switch t.choose(collective.Reduce, len(src), root) {
	case Tree:
		return t.fold(sign, r, dst, src, place)
	case Circulant:
		return t.scatterFold(sign, r, dst, src, place)
	}
	return t.chainReduce(sign, r, dst, src, place)
}

// fold combines on a binomial tree: the rounds of a broadcast backwards.
func (t *Team) fold(sign *flow.Sign, r Reduction, dst, src []byte, place int) error {
	sum := src
	into := dst
	if place > 0 {
		into = t.room(len(src))
	}
	for distance := topDistance(t.Size()); distance > 0; distance /= 2 {
		if place >= distance {
			return t.give(sign, sum, t.away(-distance))
		}
		if place+distance >= t.Size() {
			continue
		}
		f := t.begin(sign, flow.None, t.away(distance))
		part := flow.Part{Into: into, With: sum}
		if distance == 1 && place == 0 {
			part.Divisor = r.Divisor
		}
		f.Recv = append(f.Recv, part)
		sum = into
		if err := t.run(f); err != nil {
			return err
		}
	}
	return nil
}

// chainReduce lets sums stream from each member to the one before it, segment by segment
// through scratch memory.
func (t *Team) chainReduce(sign *flow.Sign, r Reduction, dst, src []byte, place int) error {
	segment := t.cost.reduceSegment()
	for lo := 0; lo == 0 || lo < len(src); lo += segment {
		own := within(src, lo, lo+segment)
		f := t.begin(sign, t.away(-1), t.away(1))
		switch place {
		case 0:
			f.To = flow.None
			f.Recv = append(f.Recv, flow.Part{Into: within(dst, lo, lo+segment), With: own, Divisor: r.Divisor})
		case t.Size() - 1:
			f.From = flow.None
			lead(f, own)
		default:
			relay(f, flow.Part{Into: t.room(len(own)), With: own})
		}
		if err := t.run(f); err != nil {
			return err
		}
	}
	return nil
}

// scatterFold gives every member its block of the sum, and then all blocks to the root, up a
// binomial tree.
func (t *Team) scatterFold(sign *flow.Sign, r Reduction, dst, src []byte, place int) error {
	n := t.Size()
	size := 0
	for i := range n {
		t.blocks[i] = t.span(src, r, i)
		t.offs[i] = size
		size += align(len(t.blocks[i]))
	}
	defer clear(t.blocks)
	room := t.room(size + len(src))
	sums := dst
	if place > 0 {
		sums = room[size:]
	}
	block := func(i int) []byte { return t.span(sums, r, i) }
	err := t.scatter(sign, r, func(i int) []byte {
		if i == 0 {
			return block(0)
		}
		return room[t.offs[i]:][:len(t.blocks[i])]
	})
	if err != nil {
		return err
	}
	for distance := 1; distance < n; distance *= 2 {
		var f *flow.Flow
		switch {
		case place%(2*distance) == distance:
			f = t.begin(sign, t.away(-distance), flow.None)
			for i := 0; i < distance && place+i < n; i++ {
				lead(f, block(i))
			}
			return t.run(f)
		case place+distance < n:
			f = t.begin(sign, flow.None, t.away(distance))
			for i := distance; i < 2*distance && place+i < n; i++ {
				f.Recv = append(f.Recv, flow.Part{Into: block(i)})
			}
			if err := t.run(f); err != nil {
				return err
			}
		}
	}
	return nil
}
