package ring

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Sampler distributes the samples of a data set over the ranks of an elastic job, in a different
// order in each pass. It is a [State]: samples before a Commit are not repeated in the pass, and
// samples that ranks had since the last Commit are repeated when a rank fails.
//
// All ranks call [Sampler.Next] at the same points with the same arguments. A Sampler is not safe
// for concurrent use.
type Sampler struct {
	samples int
	seed    uint64
	now     progress
	saved   progress
	order   []int // order of the pass in ordered; nil if it is to be made
	ordered int
}

// progress is the state that a Sampler keeps across epochs.
type progress struct{ pass, dealt int }

// NewSampler returns a Sampler of the samples 0 to n-1, at the start of pass 0. The seed decides
// the orders. Both are the same on all ranks.
func NewSampler(n int, seed uint64) *Sampler { return &Sampler{samples: max(n, 0), seed: seed} }

// Next takes the next batch of at most batch samples for all ranks together. It returns this rank's
// share, which may be empty and differs in length from the others by at most one, and the length of
// the whole batch, which is 0 when the pass is over. The caller must not change the share.
func (s *Sampler) Next(c *Comm, batch int) (mine []int, all int) {
	return s.deal(c.Rank(), c.Size(), batch)
}

func (s *Sampler) deal(rank, size, batch int) (mine []int, all int) {
	if s.order == nil || s.ordered != s.now.pass {
		s.order = rand.New(rand.NewPCG(s.seed, uint64(s.now.pass))).Perm(s.samples)
		s.ordered = s.now.pass
	}
	next := s.order[s.now.dealt:min(s.now.dealt+max(batch, 1), s.samples)]
	s.now.dealt += len(next)
	return next[len(next)*rank/size : len(next)*(rank+1)/size], len(next)
}

// Pass returns the number of the current pass, from 0.
func (s *Sampler) Pass() int { return s.now.pass }

// Dealt returns the number of samples of this pass that all ranks together have taken.
func (s *Sampler) Dealt() int { return s.now.dealt }

// NextPass starts the next pass.
func (s *Sampler) NextPass() { s.now = progress{pass: s.now.pass + 1} }

// Save implements [State].
func (s *Sampler) Save() error {
	s.saved = s.now
	return nil
}

// Restore implements [State].
func (s *Sampler) Restore() error {
	s.now = s.saved
	return nil
}

// Sync implements [State].
func (s *Sampler) Sync(ctx context.Context, c *Comm, root int) error {
	said := []int64{int64(s.samples), int64(s.seed), int64(s.now.pass), int64(s.now.dealt)}
	if err := Broadcast(ctx, c, said, root); err != nil {
		return err
	}
	if int(said[0]) != s.samples || uint64(said[1]) != s.seed {
		return fmt.Errorf("ring: sampler of %d samples with seed %d on rank %d, of %d with seed %d on rank %d: give "+
			"all ranks the same",
			s.samples, s.seed, c.Rank(), said[0], uint64(said[1]), root)
	}
	s.now = progress{pass: int(said[2]), dealt: int(said[3])}
	return nil
}
