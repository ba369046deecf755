package algorithms

import "github.com/gorun/gorun/ring/internal/flow"

// Barrier returns when all members have called it.
func (t *Team) Barrier(sign *flow.Sign) error {
	for distance := 1; distance < t.Size(); distance *= 2 {
		if err := t.run(t.begin(sign, t.away(distance), t.away(-distance))); err != nil {
			return err
		}
	}
	return nil
}

// Swap sends out to member to while in is filled by member from, whose flow has the sign
// expect. Either member may be [flow.None], and neither is this one. When it
// returns, out may be written again.
func (t *Team) Swap(sign, expect *flow.Sign, to int, out []byte, from int, in []byte) error {
	f := t.begin(sign, to, from)
	f.Expect = expect
	if to != flow.None {
		lead(f, out)
	}
	if from != flow.None {
		f.Recv = append(f.Recv, flow.Part{Into: in})
	}
	return t.run(f)
}

func (t *Team) give(sign *flow.Sign, out []byte, to int) error {
	return t.Swap(sign, nil, to, out, flow.None, nil)
}

func (t *Team) take(sign *flow.Sign, in []byte, from int) error {
	return t.Swap(sign, nil, flow.None, nil, from, in)
}

// AllGather brings every member's part to all members. parts[i] is the memory for the part
// of member i, of the same length on all members; this one's own is filled already.
func (t *Team) AllGather(sign *flow.Sign, parts [][]byte) error {
	return t.gather(sign, func(i int) []byte { return parts[t.away(i)] })
}

// treeMax is the length in bytes up to which a tree is faster than a chain.
const treeMax = 64 << 10

// Broadcast copies buf of member root to buf of all others.
func (t *Team) Broadcast(sign *flow.Sign, buf []byte, root int) error {
	place := t.wrap(t.me - root)
	if len(buf) <= treeMax {
		return t.tree(sign, buf, place)
	}
	from, to := t.away(-1), t.away(1)
	if place == 0 {
		from = flow.None
	}
	if place == t.Size()-1 {
		to = flow.None
	}
	if to == from {
		return nil // alone
	}
	f := t.begin(sign, to, from)
	switch {
	case from == flow.None:
		lead(f, buf)
	case to == flow.None:
		f.Recv = append(f.Recv, flow.Part{Into: buf})
	default:
		relay(f, flow.Part{Into: buf})
	}
	return t.run(f)
}

// tree broadcasts on a binomial tree: in round k members below 2^k send to those 2^k
// further.
func (t *Team) tree(sign *flow.Sign, buf []byte, place int) error {
	for distance := 1; distance < t.Size(); distance *= 2 {
		var err error
		switch {
		case place < distance && place+distance < t.Size():
			err = t.give(sign, buf, t.away(distance))
		case place >= distance && place < 2*distance:
			err = t.take(sign, buf, t.away(-distance))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scatterMax is the length in bytes of a whole vector up to which a reduce-scatter runs
// in log2 N rounds. It needs scratch memory, which is a reason against it above.
const scatterMax = 256 << 10

// ReduceScatter leaves in dst the combination of all members' part for this one.
// parts[i] is this member's part for member i. Parts are not changed, but dst may be this
// member's own.
func (t *Team) ReduceScatter(sign *flow.Sign, r Reduction, dst []byte, parts [][]byte) error {
	t.flow.Type, t.flow.Op = r.Type, r.Op
	if t.Size() == 1 {
		copy(dst, parts[0])
		t.divide(r, dst)
		return nil
	}
	total := 0
	for _, p := range parts {
		total += align(len(p))
	}
	if total <= scatterMax {
		return t.scatterParts(sign, r, dst, parts, total)
	}
	mine := parts[t.me]
	for distance := 1; distance < t.Size(); distance++ {
		f := t.begin(sign, t.away(distance), t.away(-distance))
		lead(f, parts[t.away(distance)])
		part := flow.Part{Into: dst, With: mine}
		if distance == t.Size()-1 {
			part.Divisor = r.Divisor
		}
		f.Recv = append(f.Recv, part)
		if err := t.run(f); err != nil {
			return err
		}
		mine = dst
	}
	return nil
}

// scatterParts does the circulant reduce-scatter, with partial sums in scratch memory.
func (t *Team) scatterParts(sign *flow.Sign, r Reduction, dst []byte, parts [][]byte, total int) error {
	for i := range parts {
		t.blocks[i] = parts[t.away(i)]
	}
	defer clear(t.blocks)
	room := t.room(total)
	at := func(i int) []byte {
		off := 0
		for j := range i {
			off += align(len(parts[t.away(j)]))
		}
		return room[off:][:len(parts[t.away(i)])]
	}
	err := t.scatter(sign, r, func(i int) []byte {
		if i == 0 {
			return dst
		}
		return at(i)
	})
	return err
}
