package algorithms

import "github.com/gorun/gorun/ring/internal/flow"

// On the circulant graph members exchange blocks at the distances of skips. Block i is the
// one that belongs to the member i numbers after this one.

// scatter combines t.blocks, which begin with this member's own, into the memory that
// into names: all but the first go away, in ever shorter hops, and sums come in their
// place. At the end block 0 is finished, in into(0).
func (t *Team) scatter(sign *flow.Sign, r Reduction, into func(i int) []byte) error {
	for k := len(t.skips) - 2; k >= 0; k-- {
		near := t.skips[k]
		far := t.skips[k+1]
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
		near := t.skips[k]
		far := t.skips[k+1]
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
