package algorithms

import "github.com/gorun/gorun/ring/internal/flow"

// Broadcast copies buf of member root to buf of all others.
func (t *Team) Broadcast(sign *flow.Sign, buf []byte, root int) error {
	if t.Size() == 1 {
		return nil
	}
	place := t.wrap(t.me - root)
	if t.choose(Broadcast, len(buf), root) == Tree {
		return t.tree(sign, buf, place)
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
