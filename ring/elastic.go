package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// State is what the ranks of an elastic job keep from epoch to epoch. [SliceState], [ValueState]
// and [Sampler] are States; [States] joins several.
type State interface {
	// Save keeps a copy of the state in memory.
	Save() error
	// Restore returns the state to the last Save.
	Restore() error
	// Sync copies the state of rank root to all ranks. It is a collective.
	Sync(ctx context.Context, c *Comm, root int) error
}

// ErrStateLost is returned by [Elastic] when no remaining rank has the job's state.
var ErrStateLost = errors.New("ring: no rank is left that has the job's state: start the job again, from a " +
	"checkpoint if there is one")

// Elastic joins the job and calls train, in an elastic job once in each epoch. When ranks fail,
// join or leave, the remaining ranks meet in the next epoch, with new numbers. Before each call of
// train, Sync copies the state of one rank to all and Save keeps it. The Comm is valid until train
// returns.
//
// Elastic returns when train returns, except for two kinds of errors, which train may wrap:
//
//   - a [*PeerError]: another rank or its host has failed. The state is restored to the last
//     Save, and the work since then is repeated. With [Step] that is one step at most.
//   - [ErrHostsUpdated], from [Commit]: hosts have joined or will leave. No work is lost.
//
// Any other error, a [*MismatchError] included, is permanent and is returned. So is the end of the
// job while Elastic waits for an epoch, which is a *PeerError. A process that cannot go on must
// return its error and exit with a code other than 0.
//
// In a job that is not elastic, and in a process that gorun has not started, train is called once,
// after a Sync, and its error is returned.
func Elastic(ctx context.Context, state State, train func(ctx context.Context, c *Comm) error, opts ...Option) error {
	t := trip{state: state, train: train}
	if err := state.Save(); err != nil {
		return fmt.Errorf("ring: elastic: save the state: %w", err)
	}
	for left := 0; ; {
		c, err := Init(ctx, append(slices.Clip(opts), AfterEpoch(left))...)
		if err != nil {
			return err
		}
		t.late = t.late || left == 0 && c.first > 1
		if t.late && c.Epoch() > c.first { // other ranks may have trained in the epoch that this one failed to join
			t.owns = max(t.owns, heard)
		}
		err = t.epoch(ctx, c)
		c.Close()
		left = c.Epoch()
		switch {
		case err == nil, !c.self.Elastic:
			return err
		case errors.Is(err, ErrHostsUpdated):
		case errors.As(err, new(*PeerError)):
			if t.voted != nil {
				break // the next epoch decides about the step
			}
			if rerr := state.Restore(); rerr != nil {
				return fmt.Errorf("ring: elastic: restore the state after %w: %w", err, rerr)
			}
		default:
			return err
		}
	}
}

// Commit saves the state and returns [ErrHostsUpdated] if the ranks must leave the epoch, for train
// to return. All ranks call it at the same point of their work. A failed rank costs the work since
// the last Commit.
func Commit(ctx context.Context, c *Comm, state State) error {
	if err := state.Save(); err != nil {
		return fmt.Errorf("ring: commit: save the state: %w", err)
	}
	return c.CheckHosts(ctx)
}

// trip is the course of a process through the epochs.
type trip struct {
	state State
	train func(ctx context.Context, c *Comm) error
	owns  ownership
	late  bool // the job had started before this process joined

	committed int64        // steps
	voted     func() error // makes the step that this rank has voted for; nil: it has not
}

// ownership is whether a process has the job's state.
type ownership int32

const (
	unborn ownership = iota // no rank had any, as far as it knows
	heard                   // other ranks had it, and ended before this process got all of it
	owned
)

func (t *trip) epoch(ctx context.Context, c *Comm) error {
	root, committed, err := t.meet(ctx, c)
	if err != nil {
		return err
	}
	if err := t.state.Sync(ctx, c, root); err != nil {
		return err
	}
	t.owns = owned
	t.committed = committed
	if err := t.state.Save(); err != nil {
		return fmt.Errorf("ring: elastic: save the state: %w", err)
	}
	c.trip = t
	return t.train(ctx, c)
}

// meet returns the lowest rank that has the state, and how many steps it has. A process that was
// interrupted before its first Sync has none: it must neither lead nor start anew.
func (t *trip) meet(ctx context.Context, c *Comm) (root int, committed int64, err error) {
	all, err := t.exchange(ctx, c)
	if err != nil {
		if t.late {
			t.owns = max(t.owns, heard)
		}
		return 0, 0, err
	}
	root = slices.IndexFunc(all, func(r report) bool { return r.owns == owned })
	switch {
	case root >= 0:
		t.owns = max(t.owns, heard)
		committed, err = t.settle(all)
		return root, committed, err
	case slices.ContainsFunc(all, func(r report) bool { return r.owns == heard }):
		return 0, 0, ErrStateLost
	}
	return 0, 0, nil
}

func (t *trip) exchange(ctx context.Context, c *Comm) ([]report, error) {
	const words = 3
	own := []int64{int64(t.owns), t.committed, 0}
	if t.voted != nil {
		own[2] = 1
	}
	said := make([]int64, words*c.Size())
	if err := AllGather(ctx, c, said, own); err != nil {
		return nil, err
	}
	var all []report
	for r := range slices.Chunk(said, words) {
		all = append(all, report{owns: ownership(r[0]), committed: r[1], voted: r[2] != 0})
	}
	return all, nil
}
