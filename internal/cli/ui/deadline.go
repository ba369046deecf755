package ui

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// stuckTime is how long nobody may take what gorun says before a user who wants the end gets it.
const stuckTime = 500 * time.Millisecond

var errGaveUp = errors.New("nobody takes what is written")

// haste is the user's wish that gorun ends, whoever reads what it says. A nil haste never comes.
type haste struct {
	once  sync.Once
	wants chan struct{}
}

func NewHaste() *haste { return &haste{wants: make(chan struct{})} }

func (h *haste) come() {
	if h != nil {
		h.once.Do(func() { close(h.wants) })
	}
}

func (h *haste) wanted() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.wants
}

// Patient writes to w, for as long as that takes. In haste a write that is stuck (a pager that is stopped, a dead file
// system behind tee) is given up and stays behind, and later ones fail at once. Safe for concurrent use.
type Patient struct {
	W     io.Writer
	Haste *haste

	mu     sync.Mutex
	gaveUp bool
}

func (p *Patient) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gaveUp {
		return 0, errGaveUp
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
	case <-p.Haste.wanted():
	}
	select {
	case r := <-written:
		return r.n, r.err
	case <-time.After(stuckTime):
		p.gaveUp = true
		return 0, errGaveUp
	}
}
