package ring

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Sampler deals the samples of a data set out to the ranks of an elastic job, in another order in each pass. It is a [State]:
// after a Commit no sample before it is dealt again in the pass, and when ranks fail those that they had since are.
//
// All ranks call [Sampler.Next] at the same points with the same arguments. So each of them knows what all have been dealt, and the
// progress is one number, which belongs to the same point of the work as the rest of a rank's state.
type Sampler struct {
	samples int
	seed    uint64
	now     progress
	saved   progress
	order   []int // of pass ordered; nil if it is to be made
	ordered int
}

// progress is what a Sampler takes along.
type progress struct{ pass, dealt int }

// NewSampler makes a Sampler of the samples 0 to n-1, at the beginning of pass 0. The seed says in what order, and is the
// same on all ranks.
func NewSampler(n int, seed uint64) *Sampler { return &Sampler{samples: max(n, 0), seed: seed} }

// Next deals the next batch, of so many samples for all ranks together, or what is left of the pass. It returns this rank's
// share, which is at most one shorter than another's and may be empty, and how many samples the batch has: 0 when the pass is
// over. The share is to be read only.
func (s *Sampler) Next(c *Comm, batch int) (mine []int, all int) {
	return s.deal(c.Rank(), c.Size(), batch)
}

func (s *Sampler) deal(rank, size, batch int) (mine []int, all int) {
	if s.order == nil || s.ordered != s.now.pass {
		s.order, s.ordered = rand.New(rand.NewPCG(s.seed, uint64(s.now.pass))).Perm(s.samples), s.now.pass
	}
	next := s.order[s.now.dealt:min(s.now.dealt+max(batch, 1), s.samples)]
	s.now.dealt += len(next)
	return next[len(next)*rank/size : len(next)*(rank+1)/size], len(next)
}

// Pass is the number of the pass, from 0.
func (s *Sampler) Pass() int { return s.now.pass }

// Dealt is how many samples of the pass were dealt to all ranks together.
func (s *Sampler) Dealt() int { return s.now.dealt }

// NextPass begins the next pass.
func (s *Sampler) NextPass() { s.now = progress{pass: s.now.pass + 1} }

// Save is that of a [State].
func (s *Sampler) Save() error {
	s.saved = s.now
	return nil
}

// Restore is that of a [State].
func (s *Sampler) Restore() error {
	s.now = s.saved
	return nil
}

// Sync is that of a [State].
func (s *Sampler) Sync(ctx context.Context, c *Comm, root int) error {
	said := []int64{int64(s.samples), int64(s.seed), int64(s.now.pass), int64(s.now.dealt)}
	if err := Broadcast(ctx, c, said, root); err != nil {
		return err
	}
	if int(said[0]) != s.samples || uint64(said[1]) != s.seed {
		return fmt.Errorf("ring: sampler of %d samples with seed %d on rank %d, of %d with seed %d on rank %d: give all ranks the same",
			s.samples, s.seed, c.Rank(), said[0], uint64(said[1]), root)
	}
	s.now = progress{pass: int(said[2]), dealt: int(said[3])}
	return nil
}
