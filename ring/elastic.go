package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// State is what the ranks of an elastic job have learned, and take along from epoch to epoch. [SliceState],
// [ValueState] and [Sampler] are States, [States] joins several.
type State interface {
	// Save keeps the state as it is now, in memory.
	Save() error
	// Restore makes the state what it was at the last Save.
	Restore() error
	// Sync makes the state of all ranks that of root. All of them call it.
	Sync(ctx context.Context, c *Comm, root int) error
}

// ErrStateLost is returned by [Elastic] when no rank is left that has the job's state.
var ErrStateLost = errors.New("ring: no rank is left that has the job's state: start the job again, from a checkpoint if there is one")

// Elastic joins the job and calls train, in an elastic job once in each epoch: when ranks fail, come or go, those
// that are there meet again in the next epoch, with other numbers, and train begins anew with the state and a Comm of the
// epoch, which is valid until train returns. Before that Sync gives all ranks the state of one that has it, and Save keeps it.
//
// It returns when train does, but for two kinds of errors, wrapped by %w or not:
//
//   - a [*PeerError]: another rank or its host has failed. The state is restored to its last Save, and what was done since
//     then is done again.
//   - [ErrHostsUpdated], of [Commit]: hosts have come or are to go. Nothing is lost.
//
// All other errors, a [*MismatchError] among them, are the program's own, and would come again; so is the end
// of the job while it waits for an epoch, a *PeerError. A process that cannot go on returns its error and exits with a code other than 0.
//
// In a job that is not elastic, and in a process that gorun has not started, train is called once, after a Sync, and its
// error is returned.
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
		err = t.epoch(ctx, c)
		c.Close()
		left = c.Epoch()
		switch {
		case err == nil, !c.place.Elastic:
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

// Commit is a point to which a rank can come back: it saves the state, and returns [ErrHostsUpdated] if the ranks are
// to leave the epoch, for train to return. All ranks call it at the same point of their work, as often as it is worth: what
// was done since the last Commit is lost when a rank fails.
func Commit(ctx context.Context, c *Comm, state State) error {
	if err := state.Save(); err != nil {
		return fmt.Errorf("ring: commit: save the state: %w", err)
	}
	return c.CheckHosts(ctx)
}

// trip is a process's way through the epochs.
type trip struct {
	state State
	train func(ctx context.Context, c *Comm) error
	owns  ownership
	late  bool // the job had begun before this process came
}

// ownership is what a process knows of the job's state.
type ownership int32

const (
	unborn ownership = iota // nobody had any, as far as it knows
	heard                   // others had it, and were gone before this process got all of it
	owned
)

// epoch is the work of one epoch.
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

// root is the lowest rank that has the state. A rank that was left before it was given the state has none, though it was
// in an epoch; it must not pass for one that has, nor begin anew.
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
