package services

import (
	"context"
	"sync"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/wire"
)

// epochs is the relay of a process of an elastic job: it goes from one epoch to the next when the launcher says so. It is
// the door's kv.Elastic.
type epochs struct {
	*relay
	job string
	own wire.Rank // as it was started

	mu          sync.Mutex
	current     kv.JobInfo    // of epoch 0 until there is one
	began       chan struct{} // closed when another epoch begins
	interrupted chan struct{} // closed when the current one is interrupted
	gone        chan struct{} // closed when there will be no more
	failed      chan struct{} // closed when the current one is aborted
	hasFailed   bool
	isGone      bool
	isOver      bool // the current one is interrupted
	hasAsked    bool // the launcher knows that the rank asks for epochs
}

func newEpochs(relay *relay, job wire.Job) *epochs {
	return &epochs{relay: relay, job: job.ID, own: job.Ranks[0], began: make(chan struct{}), interrupted: make(chan struct{}), failed: make(chan struct{}), gone: make(chan struct{})}
}

// begin lets the rank into an epoch.
func (e *epochs) begin(epoch wire.Epoch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch.Number <= e.current.Epoch {
		return
	}
	e.relay.begin(epoch.Number, epoch.Rank, epoch.Size)
	e.current = kv.JobInfo{Job: e.job, Epoch: epoch.Number, Rank: epoch.Rank, Size: epoch.Size, Key: epoch.Key,
		Location: &kv.Location{LocalRank: epoch.LocalRank, LocalSize: epoch.LocalSize, CrossRank: epoch.CrossRank, CrossSize: epoch.CrossSize,
			Node: epoch.Node, Nodes: epoch.Nodes, Addrs: epoch.Addrs}}
	if e.isOver {
		e.interrupted, e.isOver = make(chan struct{}), false
	}
	if e.hasFailed {
		e.failed, e.hasFailed = make(chan struct{}), false
	}
	close(e.began)
	e.began = make(chan struct{})
}

// Park asks for the next epoch, unless there is one already.
func (e *epochs) Park(ctx context.Context, left int) (kv.JobInfo, error) {
	asked := false
	for {
		e.mu.Lock()
		current, began := e.current, e.began
		// The first epoch may have begun without the rank, as if it knew nothing of epochs. The launcher is to hear that it does.
		tell := !asked && (current.Epoch <= left || !e.hasAsked)
		e.hasAsked = true
		e.mu.Unlock()
		if tell {
			if err := e.out.SendMessage(wire.TypePark, wire.Park{Left: left}); err != nil {
				return kv.JobInfo{}, err
			}
			asked = true
		}
		if current.Epoch > left {
			return current, nil
		}
		select {
		case <-began:
		case <-e.gone:
			return kv.JobInfo{}, kv.ErrAborted
		case <-ctx.Done():
			return kv.JobInfo{}, ctx.Err()
		case <-e.ended:
			return kv.JobInfo{}, errEnded
		}
	}
}

// Joined tells the launcher.
func (e *epochs) Joined(epoch int) {
	_ = e.out.SendMessage(wire.TypeJoined, wire.Joined{Epoch: epoch}) // the loop notices a dead launcher
}

// Interrupted is closed at once for an epoch that is over.
func (e *epochs) Interrupted(epoch int) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch < e.current.Epoch {
		over := make(chan struct{})
		close(over)
		return over
	}
	return e.interrupted
}

// interrupt has the rank ask for another epoch.
func (e *epochs) interrupt(i wire.Interrupt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.Epoch == e.current.Epoch && !e.isOver {
		e.isOver = true
		close(e.interrupted)
	}
}

// abort tells the rank that an epoch cannot go on, or that there will be none any more.
func (e *epochs) abort(a wire.Abort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.Epoch == 0:
		if !e.isGone {
			e.isGone = true
			close(e.gone)
		}
	case a.Epoch != e.current.Epoch:
		return
	case !e.hasFailed:
		e.hasFailed = true
		close(e.failed)
	}
	e.relay.abort(a)
}

// Failed is never closed for an epoch that is over.
func (e *epochs) Failed(epoch int) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch != e.current.Epoch {
		return nil
	}
	return e.failed
}
