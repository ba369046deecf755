package resident

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
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
	warm   Warm // nil: none is preloaded
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
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// start starts an agent; the caller holds mu.
func (s *stock) start() (*agent, error) {
	return startAgent(s.ctx, func(files [3]*os.File) (*os.Process, error) {
		if s.warm != nil {
			process, err := s.warm.StartGuard(s.argv, files)
			if err == nil {
				return process, nil
			}
			s.warm.Close() // it has been killed, or hangs
			s.warm = nil
		}
		sys := &syscall.SysProcAttr{Setsid: true}
		return os.StartProcess(s.argv[0], s.argv, &os.ProcAttr{Files: files[:], Sys: sys})
	})
}

// preload starts a warm interpreter for the agents to come.
func (s *stock) preload(p Preload, preload Preloader) (printed string, err error) {
	started, printed, err := preload(s.ctx, p)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.warm != nil {
		started.Close()
		return "", errors.New("an interpreter is warm already, or the resident agent ends")
	}
	s.warm = started
	if s.spare != nil { // its agent could not fork ranks
		s.spare.dismiss()
		s.spare = nil
	}
	s.timer.Reset(restTime)
	return printed, nil
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
	s.spare, _ = s.start() // the next job says why it fails
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
	if s.warm != nil {
		s.warm.Close()
	}
}
