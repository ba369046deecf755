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
