package algorithms

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// Broadcast copies buf of member root to buf of all others.
func (t *Team) Broadcast(sign *flow.Sign, buf []byte, root int) error {
	if t.Size() == 1 {
		return nil
	}
	place := t.wrap(t.me - root)
	switch t.choose(collective.Broadcast, len(buf), root) {
	case Tree:
		return t.tree(sign, buf, place)
	case Circulant:
		return t.scatterGather(sign, buf, place)
	}
	return t.chain(sign, buf, place)
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

// chain lets the bytes stream from each member to the next.
func (t *Team) chain(sign *flow.Sign, buf []byte, place int) error {
	switch place {
	case 0:
		return t.give(sign, buf, t.away(1))
	case t.Size() - 1:
		return t.take(sign, buf, t.away(-1))
	}
	f := t.begin(sign, t.away(1), t.away(-1))
	relay(f, flow.Part{Into: buf})
	return t.run(f)
}

// scatterGather gives every member its block of the vector, down a binomial tree, and then all
// blocks to all.
func (t *Team) scatterGather(sign *flow.Sign, buf []byte, place int) error {
	block := func(i int) []byte { return Span(buf, 1, t.away(i), t.Size()) }
	for distance := topDistance(t.Size()); distance > 0; distance /= 2 {
		var f *flow.Flow
		switch {
		case place%(2*distance) == 0 && place+distance < t.Size():
			f = t.begin(sign, t.away(distance), flow.None)
			for i := distance; i < 2*distance && place+i < t.Size(); i++ {
				lead(f, block(i))
			}
		case place%(2*distance) == distance:
			f = t.begin(sign, flow.None, t.away(-distance))
			for i := 0; i < distance && place+i < t.Size(); i++ {
				f.Recv = append(f.Recv, flow.Part{Into: block(i)})
			}
		default:
			continue
		}
		if err := t.run(f); err != nil {
			return err
		}
	}
	return t.gather(sign, block)
}

// topDistance is the longest hop of a binomial tree of n members.
func topDistance(n int) int {
	distance := 1
	for 2*distance < n {
		distance *= 2
	}
	return distance
}
