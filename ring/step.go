package ring

import (
	"context"
	"errors"
	"fmt"
)

// Step makes one step of a training in [Elastic], which all ranks commit or none does. All ranks
// call it at the same point of their work.
//
// compute makes what the step needs, such as the sum of all ranks' gradients, by collectives. It
// may also advance the state, as [Sampler.Next] does. Then the ranks vote, by an allreduce of one
// number, and apply changes the state, without collectives. At the end the state is saved, as by
// [Commit], whose errors Step has too.
//
// If a rank is lost before all that are left have voted, the state is restored to the end of the
// last step, and train repeats the step in the next epoch. If they all have voted, a rank that was
// lost may have committed the step: they commit it too, before train is called again.
func Step(ctx context.Context, c *Comm, compute, apply func() error) error {
	if err := compute(); err != nil {
		return err
	}
	t := c.trip
	if t == nil { // a job without epochs, which repeats no step
		if err := apply(); err != nil {
			return err
		}
		return c.CheckHosts(ctx)
	}
	t.voted = apply // before others can learn of it
	err := c.CheckHosts(ctx)
	if err != nil && !errors.Is(err, ErrHostsUpdated) {
		return err
	}
	if failed := t.commit(); failed != nil {
		return failed
	}
	return err
}

// commit makes the step that this rank has voted for.
func (t *trip) commit() error {
	apply := t.voted
	t.voted = nil
	if err := apply(); err != nil {
		return err
	}
	t.committed++
	if err := t.state.Save(); err != nil {
		return fmt.Errorf("ring: step: save the state: %w", err)
	}
	return nil
}

// report is what a rank says at the beginning of an epoch.
type report struct {
	owns      ownership
	committed int64 // steps
	voted     bool  // for the next step
}

// settle commits or drops the step that this rank has voted for, by the reports of all ranks, and
// returns how many steps all have then. A step is committed by a rank only after the votes of all.
// So if all that have the state have voted, it may have been.
func (t *trip) settle(all []report) (committed int64, err error) {
	mayBe := true
	for _, r := range all {
		if r.owns == owned {
			committed = max(committed, r.committed)
			mayBe = mayBe && r.voted
		}
	}
	for _, r := range all {
		mayBe = mayBe && (r.owns != owned || r.committed == committed)
	}
	if mayBe {
		committed++
	}
	switch {
	case t.voted == nil:
	case t.committed < committed:
		err = t.commit()
	default:
		t.voted = nil
		if err = t.state.Restore(); err != nil {
			err = fmt.Errorf("ring: elastic: restore the state: %w", err)
		}
	}
	return committed, err
}
