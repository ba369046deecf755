package algorithms

import "github.com/gorun/gorun/ring/internal/flow"

// Reduce leaves in dst of member root the combination of all members' src. They have the
// same length on all members, but dst is used at the root only. Src may be dst, and is not
// changed elsewhere.
func (t *Team) Reduce(sign *flow.Sign, r Reduction, dst, src []byte, root int) error {
	if t.alone(r, dst, src) {
		return nil
	}
	place := t.wrap(t.me - root)
	if t.choose(Reduce, len(src), root) == Tree {
		return t.fold(sign, r, dst, src, place)
	}
	return t.chainReduce(sign, r, dst, src, place)
}

// fold combines on a binomial tree: the rounds of a broadcast backwards.
func (t *Team) fold(sign *flow.Sign, r Reduction, dst, src []byte, place int) error {
	sum, into := src, dst
	if place > 0 {
		into = t.room(len(src))
	}
	distance := 1
	for 2*distance < t.Size() {
		distance *= 2
	}
	for ; distance > 0; distance /= 2 {
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
