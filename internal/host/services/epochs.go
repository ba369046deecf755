package services

import (
	"context"
	"sync"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// epochs is the relay of a process of an elastic job: the launcher leads it from epoch to epoch. It
// is the rank server's kv.Elastic.
type epochs struct {
	*relay
	job string
	own wire.Rank // rank at its start

	mu          sync.Mutex
	current     kv.JobInfo    // current epoch; 0 before the first
	began       chan struct{} // closed when another epoch begins
	interrupted chan struct{} // closed when the current one is interrupted
	over        chan struct{} // closed when no epoch will follow
	failed      chan struct{} // closed when the current one is aborted
	hasFailed   bool
	isFinal     bool
	isOver      bool // the current one is interrupted
	hasAsked    bool // the launcher knows that the rank asks for epochs
}

func newEpochs(relay *relay, job wire.Job) *epochs {
	return &epochs{
		relay:       relay,
		job:         job.ID,
		own:         job.Ranks[0],
		began:       make(chan struct{}),
		interrupted: make(chan struct{}),
		failed:      make(chan struct{}),
		over:        make(chan struct{}),
	}
}

// begin makes an epoch the rank's current one.
func (e *epochs) begin(epoch wire.Epoch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch.Number <= e.current.Epoch {
		return
	}
	e.relay.begin(epoch.Number, epoch.Rank, epoch.Size)
	e.current = kv.JobInfo{
		Job:   e.job,
		Epoch: epoch.Number,
		Rank:  epoch.Rank,
		Size:  epoch.Size,
		Key:   epoch.Key,
		Location: &kv.Location{
			LocalRank: epoch.LocalRank,
			LocalSize: epoch.LocalSize,
			CrossRank: epoch.CrossRank,
			CrossSize: epoch.CrossSize,
			Node:      epoch.Node,
			Nodes:     epoch.Nodes,
			Addrs:     epoch.Addrs,
		},
	}
	if e.isOver {
		e.interrupted = make(chan struct{})
		e.isOver = false
	}
	if e.hasFailed {
		e.failed = make(chan struct{})
		e.hasFailed = false
	}
	close(e.began)
	e.began = make(chan struct{})
}

// Park waits for an epoch after left, and requests one from the launcher if needed.
func (e *epochs) Park(ctx context.Context, left int) (kv.JobInfo, error) {
	asked := false
	for {
		e.mu.Lock()
		current := e.current
		began := e.began
		// The first epoch may have begun before the rank asked, as for programs without elastic
		// support: the launcher must learn that this one asks.
		ask := !asked && (current.Epoch <= left || !e.hasAsked)
		e.hasAsked = true
		e.mu.Unlock()
		if ask {
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
		case <-e.over:
			return kv.JobInfo{}, kv.ErrAborted
		case <-ctx.Done():
			return kv.JobInfo{}, ctx.Err()
		case <-e.ended:
			return kv.JobInfo{}, errEnded
		}
	}
}

// Joined reports to the launcher.
func (e *epochs) Joined(epoch int) {
	_ = e.out.SendMessage(wire.TypeJoined, wire.Joined{Epoch: epoch}) // the loop notices a lost launcher
}

// The channel of Interrupted is closed for an epoch that has ended.
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

// interrupt makes the rank request another epoch.
func (e *epochs) interrupt(i wire.Interrupt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.Epoch == e.current.Epoch && !e.isOver {
		e.isOver = true
		close(e.interrupted)
	}
}

// abort informs the rank that an epoch has failed, or that none will follow.
func (e *epochs) abort(a wire.Abort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.Epoch == 0:
		if !e.isFinal {
			e.isFinal = true
			close(e.over)
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
