package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/simulate"
)

// verdict compares the launcher's result with the course of the job.
func (w *world) verdict() error {
	b := w.boss
	if !b.told {
		return nil
	}
	r := b.core.Result()
	allWell := true
	for _, rank := range w.ranks {
		allWell = allWell && !rank.alive && rank.code == 0 && rank.killed == 0
	}
	switch {
	case b.code != r.Code() || b.code < 0 || b.code > 255:
		return fmt.Errorf("code %d for %+v", b.code, r)
	case b.code == 0 && !allWell:
		return fmt.Errorf("code 0, and not every rank ended well: %+v", r)
	case b.code != 0 && allWell && r.Stopped == NotStopped && len(r.Lost)+len(r.Unconfirmed) == 0:
		return fmt.Errorf("code %d, and every rank ended well: %+v", b.code, r)
	case b.code != 0 && w.harmless:
		return fmt.Errorf("code %d, and nothing went wrong: %+v", b.code, r)
	case len(r.Unconfirmed) > 0 && w.Now < b.due:
		return fmt.Errorf("gave up at %v, before %v", w.Now, b.due)
	}
	for _, lost := range r.Lost {
		if i := slices.IndexFunc(w.hosts, func(h *simHost) bool {
			return h.name == lost.Host
		}); !w.hosts[i].suspect && !w.hosts[i].stuck {
			return fmt.Errorf("%s is lost without a fault: %v", lost.Host, lost.Err)
		}
	}
	return w.blame(r)
}

// blame compares the result's cause with the course of the job.
func (w *world) blame(r Result) error {
	var first *simRank // of the failures that the launcher knows and that have no cause
	for _, rank := range w.ranks {
		e, known := w.boss.known[rank.rank]
		// a SIGKILL of another's may be reaped after the agent's own
		if known && e.Stopped && rank.origin && !rank.termed && !rank.left {
			return fmt.Errorf("rank %d failed by itself, and counts as stopped", rank.rank)
		}
		began := rank.left && w.boss.core.aborter == rank.rank
		if known && !e.Stopped && rank.origin && (!rank.told || began) &&
			(first == nil || rank.endedAt < first.endedAt) {
			first = rank
		}
	}
	switch {
	case r.Cause == nil:
		if first != nil {
			return fmt.Errorf("rank %d failed, and there is no cause", first.rank)
		}
		return nil
	case r.Cause.Lost != nil:
		if first != nil && first.endedAt+w.boss.blur < r.Cause.At {
			return fmt.Errorf("rank %d failed at %v, and the cause is %v at %v", first.rank, first.endedAt, r.Cause,
				r.Cause.At)
		}
		return nil
	}
	i := slices.IndexFunc(w.ranks, func(rank *simRank) bool { return rank.rank == r.Cause.Rank })
	cause := w.ranks[i]
	want := cause.code
	if cause.killed != 0 {
		want = wire.SignalCode(cause.killed)
	}
	switch {
	case !r.Cause.Victim && !cause.origin:
		return fmt.Errorf("the cause is %v, which is a consequence", r.Cause)
	case r.Cause.Victim && first != nil:
		return fmt.Errorf("the cause is the victim %v, and rank %d failed by itself", r.Cause, first.rank)
	case r.Stopped == NotStopped && w.boss.code != want:
		return fmt.Errorf("code %d, and the cause ended with %d", w.boss.code, want)
	case !r.Cause.Victim && first != nil && first.endedAt+w.boss.blur < cause.endedAt:
		return fmt.Errorf("rank %d failed at %v, and the cause is %v at %v", first.rank, first.endedAt, r.Cause,
			cause.endedAt)
	}
	return nil
}

func playJob(seed uint64, tell bool) (code int, c *simulate.Clock) {
	w := newWorld(rand.New(rand.NewPCG(seed, 3)), tell)
	w.Fault = w.run()
	return w.boss.code, &w.Clock
}

// TestWholeJobs plays made-up jobs. make simulate plays more of them (N=1000000), or one with its
// log (SEED=7).
func TestWholeJobs(t *testing.T) {
	simulate.Seeds(t, simulatedJobs, []int{0, 1, CodeTimeout, CodeLaunch, 129, 130, 137, 139, 141, 143}, playJob)
}

func TestWholeJobsOfOneSeedAreTheSame(t *testing.T) { simulate.Repeatable(t, 300, playJob) }
