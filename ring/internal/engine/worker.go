package engine

import (
	"sync"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
)

// worker runs one step at a time of a team, on a goroutine, while its user works in memory.
type worker struct {
	team  *algorithms.Team
	steps chan step
	done  chan error
	busy  bool // a step was started and not waited for
	ended sync.WaitGroup
}

// step is a collective on buf, in place.
type step struct {
	kind   collective.Kind // AllReduce, Broadcast or Reduce
	sign   *flow.Sign
	reduce algorithms.Reduction
	buf    []byte
	root   int // root of a broadcast or reduce
}

func newWorker(team *algorithms.Team) *worker {
	w := &worker{team: team, steps: make(chan step), done: make(chan error, 1)}
	w.ended.Go(func() {
		for s := range w.steps {
			w.done <- w.carry(s)
		}
	})
	return w
}

func (w *worker) carry(s step) error {
	switch s.kind {
	case collective.Broadcast:
		return w.team.Broadcast(s.sign, s.buf, s.root)
	case collective.Reduce:
		return w.team.Reduce(s.sign, s.reduce, s.buf, s.buf, s.root)
	}
	return w.team.AllReduce(s.sign, s.reduce, s.buf, s.buf)
}

// start begins a step. The caller waits for it before the next one.
func (w *worker) start(s step) {
	w.busy = true
	w.steps <- s
}

// wait returns when the step is done.
func (w *worker) wait() error {
	err := <-w.done
	w.busy = false
	return err
}

func (w *worker) close() {
	close(w.steps)
	w.ended.Wait()
}
