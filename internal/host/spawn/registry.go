package spawn

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// Registry keeps the worlds with ranks on this host, and the requests for others. It is safe for
// concurrent use.
type Registry struct {
	may wire.Spawn

	mu     sync.Mutex
	worlds map[int]*World // worlds by the numbers of the ranks that run here
	asked  map[uint64]request
	last   uint64
	turn   chan struct{} // closed when the last world has been handled
}

// request is one that the launcher has not answered.
type request struct {
	by     int
	answer chan Answer
}

// Answer is the world that was asked for, or why there is none.
type Answer struct {
	World *World
	Err   error
}

// NewRegistry returns the registry of a host.
func NewRegistry(may wire.Spawn) *Registry {
	turn := make(chan struct{})
	close(turn)
	return &Registry{
		may:    may,
		worlds: map[int]*World{},
		asked:  map[uint64]request{},
		turn:   turn,
	}
}

// Ask registers a request of a rank. The caller drops it when it waits no longer.
func (r *Registry) Ask(by int) (id uint64, answer <-chan Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	kept := request{by, make(chan Answer, 1)}
	r.asked[r.last] = kept
	return r.last, kept.answer
}

// Drop forgets a request.
func (r *Registry) Drop(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, id)
}

// Answer answers the request of this host that a world is for, if it is for one.
func (r *Registry) Answer(w wire.World, a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked, ours := r.asked[w.ID]; ours && asked.by == w.By {
		delete(r.asked, w.ID)
		asked.answer <- a
	}
}

// Turn gives each world its turn in the order of the calls: it waits for before, and closes done.
func (r *Registry) Turn() (before <-chan struct{}, done chan<- struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.turn
	next := make(chan struct{})
	r.turn = next
	return before, next
}

var errWorld = errors.New("the launcher described ranks that cannot be")

// Add takes a world of the launcher.
func (r *Registry) Add(described wire.World) (*World, error) {
	ranks := 0
	named := true
	for _, p := range described.Programs {
		if p.Ranks < 1 {
			return nil, errWorld
		}
		ranks += p.Ranks
		named = named && len(p.Argv) > 0
	}
	if ranks != len(described.Numbers) || ranks != len(described.HostOf) {
		return nil, errWorld
	}
	w := newWorld(described, r.may.Has)
	if len(w.Here) > 0 && !named {
		return nil, errWorld
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rank := range w.Here {
		r.worlds[w.Numbers[rank]] = w
	}
	return w, nil
}

// Of returns the world of a spawned rank that runs here, or nil.
func (r *Registry) Of(number int) *World {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.worlds[number]
}

// Numbers lists the spawned ranks that run here, ascending.
func (r *Registry) Numbers() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.worlds))
}

// Ended records that a spawned rank has ended.
func (r *Registry) Ended(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.worlds, number)
}
