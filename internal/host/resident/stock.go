package resident

import (
	"context"
	"sync"
	"time"
)

// restTime is how long after the end of an agent the next one is started that waits for a job. A
// job that comes sooner, as one of many short ones, shares the CPUs with no such start.
const restTime = 20 * time.Millisecond

// stock starts agents, and keeps one that waits for a job. It is safe for concurrent use.
type stock struct {
	ctx    context.Context // context of all agents
	argv   []string
	spares bool

	mu     sync.Mutex
	spare  *agent
	timer  *time.Timer // timer of the next spare
	closed bool
}

func newStock(ctx context.Context, argv []string, spares bool) *stock {
	s := &stock{ctx: ctx, argv: argv, spares: spares}
	s.timer = time.AfterFunc(restTime, s.fill)
	return s
}

// take returns an agent that can begin.
func (s *stock) take() (*agent, error) {
	s.mu.Lock()
	spare := s.spare
	s.spare = nil
	s.timer.Stop()
	s.mu.Unlock()
	if spare != nil {
		if spare.alive() {
			return spare, nil
		}
		spare.dismiss()
	}
	return startAgent(s.ctx, s.argv)
}

// restock has a spare started soon, if there is none.
func (s *stock) restock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.timer.Reset(restTime)
	}
}

func (s *stock) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.spares || s.closed || s.spare != nil {
		return
	}
	s.spare, _ = startAgent(s.ctx, s.argv) // the next job says why it fails
}

// close ends the spare. No agent is taken after it.
func (s *stock) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
	if s.spare != nil {
		s.spare.dismiss()
	}
}
