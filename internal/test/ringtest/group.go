package ringtest

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
)

// Abort is why a job has failed.
type Abort struct {
	Rank  int    `json:"rank"`
	Host  string `json:"host"`
	Cause string `json:"cause"`
}

// group is a set of ranks that meet in fences until it is aborted: a fixed job, or an epoch of an
// elastic one.
type group struct {
	size    int
	aborted chan struct{}

	mu     sync.Mutex
	fences map[string]*fence
	info   []byte // abort as JSON
}

type fence struct {
	posted map[int]bool
	values [][]byte
	full   chan struct{}
}

func newGroup(size int) *group {
	return &group{size: size, aborted: make(chan struct{}), fences: map[string]*fence{}}
}

// fence posts the value of a rank and waits for the values of all. A rank posts once under each
// name.
func (g *group) fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	g.mu.Lock()
	f := g.fences[name]
	if f == nil {
		f = &fence{posted: map[int]bool{}, values: make([][]byte, g.size), full: make(chan struct{})}
		g.fences[name] = f
	}
	again := f.posted[rank]
	if !again {
		f.posted[rank] = true
		f.values[rank] = value
		if len(f.posted) == g.size {
			close(f.full)
		}
	}
	g.mu.Unlock()
	if again {
		return nil, &kv.DuplicateError{Name: name, Member: rank}
	}
	select {
	case <-f.full:
		return f.values, nil
	case <-g.aborted:
		return nil, kv.ErrAborted
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// abort ends the group. Only the first call has an effect.
func (g *group) abort(a Abort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.info == nil {
		g.info, _ = json.Marshal(a) // strings and a number: no error
		close(g.aborted)
	}
}

// Aborted implements [kv.Backend].
func (g *group) Aborted() <-chan struct{} { return g.aborted }

// AbortInfo implements [kv.Backend].
func (g *group) AbortInfo() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.info
}

// store is the part of a [kv.Backend] that the launcher's store answers.
type store struct{ *kv.Store }

// Put stores a value.
func (s store) Put(key string, value []byte) error { return s.Store.Put("host", key, value) }

// Get waits for the key.
func (s store) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	value, found := s.Store.Get(ctx, key)
	return value, found, nil
}
