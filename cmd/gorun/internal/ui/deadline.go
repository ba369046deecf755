package ui

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// writeTimeout is how long a blocked write may delay exit after a stop request.
const writeTimeout = 500 * time.Millisecond

var errAbandoned = errors.New("write abandoned: the reader is stuck")

// WriteDeadline starts when the user asks gorun to end. A nil WriteDeadline never starts.
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

// DeadlineWriter writes to W without a time limit until Deadline has started. After that it
// abandons a write that blocks for writeTimeout, and later writes fail at once. It is safe for
// concurrent use.
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
	data = slices.Clone(data) // the caller reuses data after an abandoned write
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
