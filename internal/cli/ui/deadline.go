package ui

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// writeTimeout is how long nobody may take what gorun says before a user who wants the end gets it.
const writeTimeout = 500 * time.Millisecond

var errAbandoned = errors.New("write abandoned: the reader is stuck")

// haste is the user's wish that gorun ends, whoever reads what it says. A nil haste never comes.
type WriteDeadline struct {
	once  sync.Once
	began chan struct{}
}

func NewWriteDeadline() *WriteDeadline { return &WriteDeadline{began: make(chan struct{})} }

func (h *WriteDeadline) Start() {
	if h != nil {
		h.once.Do(func() { close(h.began) })
	}
}

func (h *WriteDeadline) started() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.began
}

// Patient writes to w, for as long as that takes. In haste a write that is stuck (a pager that is stopped, a dead file
// system behind tee) is given up and stays behind, and later ones fail at once. Safe for concurrent use.
type DeadlineWriter struct {
	W        io.Writer
	Deadline *WriteDeadline

	mu        sync.Mutex
	abandoned bool
}

func (p *DeadlineWriter) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return 0, errAbandoned
	}
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	data = slices.Clone(data) // the caller's is its own again after we gave up
	go func() {
		n, err := p.W.Write(data)
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		return r.n, r.err
	case <-p.Deadline.started():
	}
	select {
	case r := <-written:
		return r.n, r.err
	case <-time.After(writeTimeout):
		p.abandoned = true
		return 0, errAbandoned
	}
}
