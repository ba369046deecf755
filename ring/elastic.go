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
//     Save, and the work since then is repeated.
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
}

// ownership is whether a process has the job's state.
type ownership int32

const (
	unborn ownership = iota // no rank had any, as far as it knows
	heard                   // other ranks had it, and ended before this process got all of it
	owned
)

// epoch does the work of one epoch.
func (t *trip) epoch(ctx context.Context, c *Comm) error {
	root, err := t.root(ctx, c)
	if err != nil {
		return err
	}
	if err := t.state.Sync(ctx, c, root); err != nil {
		return err
	}
	t.owns = owned
	if err := t.state.Save(); err != nil {
		return fmt.Errorf("ring: elastic: save the state: %w", err)
	}
	return t.train(ctx, c)
}

// root returns the lowest rank that has the state. A process that was interrupted before its first
// Sync has none: it must neither lead nor start anew.
func (t *trip) root(ctx context.Context, c *Comm) (int, error) {
	all := make([]int32, c.Size())
	if err := AllGather(ctx, c, all, []int32{int32(t.owns)}); err != nil {
		if t.late {
			t.owns = max(t.owns, heard)
		}
		return 0, err
	}
	root := slices.Index(all, int32(owned))
	switch {
	case root >= 0:
		t.owns = max(t.owns, heard)
	case slices.Contains(all, int32(heard)):
		return 0, ErrStateLost
	default:
		root = 0
	}
	return root, nil
}
