package ringtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/test/fake"
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
	*fake.Store
	aborted chan struct{}

	mu     sync.Mutex
	posted map[string]bool // by rank and fence
	info   []byte          // abort as JSON
}

func newGroup(size int) *group {
	return &group{Store: fake.NewStore(size), aborted: make(chan struct{}), posted: map[string]bool{}}
}

// Fence posts the value of a rank and waits for the values of all. A rank posts once under each
// name, also when all have.
func (g *group) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	post := fmt.Sprint(rank, name)
	g.mu.Lock()
	again := g.posted[post]
	g.posted[post] = true
	g.mu.Unlock()
	if again {
		return nil, &kv.DuplicateError{Name: name, Member: rank}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-g.aborted:
			cancel(kv.ErrAborted)
		case <-ctx.Done():
		}
	}()
	return g.Store.Fence(ctx, name, rank, value)
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
