package services

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// registry keeps the worlds with ranks on this host, and the requests for others. It is safe for
// concurrent use.
type registry struct {
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
	answer chan spawned
}

// spawned is the world that was asked for, or why there is none.
type spawned struct {
	World *World
	Err   error
}

func newRegistry(may wire.Spawn) *registry {
	turn := make(chan struct{})
	close(turn)
	return &registry{
		may:    may,
		worlds: map[int]*World{},
		asked:  map[uint64]request{},
		turn:   turn,
	}
}

// ask registers a request of a rank. The caller drops it when it waits no longer.
func (r *registry) ask(by int) (id uint64, answer <-chan spawned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	kept := request{by, make(chan spawned, 1)}
	r.asked[r.last] = kept
	return r.last, kept.answer
}

func (r *registry) drop(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asked, id)
}

// answer answers the request of this host that a world is for, if it is for one.
func (r *registry) answer(w wire.World, a spawned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked, ours := r.asked[w.ID]; ours && asked.by == w.By {
		delete(r.asked, w.ID)
		asked.answer <- a
	}
}

// takeTurn gives each world its turn in the order of the calls: it waits for before, and closes
// done.
func (r *registry) takeTurn() (before <-chan struct{}, done chan<- struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.turn
	next := make(chan struct{})
	r.turn = next
	return before, next
}

var errWorld = errors.New("the launcher described ranks that cannot be")

// add takes a world of the launcher.
func (r *registry) add(described wire.World) (*World, error) {
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

// of returns the world of a spawned rank that runs here, or nil.
func (r *registry) of(number int) *World {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.worlds[number]
}

// numbers lists the spawned ranks that run here, ascending.
func (r *registry) numbers() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.worlds))
}

// ended records that a spawned rank has ended.
func (r *registry) ended(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.worlds, number)
}
