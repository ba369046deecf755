package spawn

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorun/gorun/internal/wire"
)

// Program is run by so many ranks of a world.
type Program struct {
	Argv  []string
	Env   []string // NAME=value, laid over those of the rank that asks
	Dir   string   // "": that of the rank that asks
	Host  string   // where it must run; "": anywhere
	Ranks int
}

// Request is what a rank asks for.
type Request struct {
	By       int // the number of the rank
	Programs []Program
}

// Count is the number of ranks of all programs.
func (r Request) Count() (n int) {
	for _, p := range r.Programs {
		n += p.Ranks
	}
	return n
}

// Shares are the numbers of ranks of all programs.
func (r Request) Shares() (all []int) {
	for _, p := range r.Programs {
		all = append(all, p.Ranks)
	}
	return all
}

// Book gives out the numbers of this host's spawned ranks. It is safe for concurrent use.
type Book struct {
	may  wire.Spawn
	host string

	mu     sync.Mutex
	given  int            // numbers
	worlds map[int]*World // of the ranks that run, by number
	last   int            // world
}

// NewBook returns the book of a host.
func NewBook(may wire.Spawn, host string) *Book {
	return &Book{may: may, host: host, worlds: map[int]*World{}}
}

// Open gives the ranks of a request their numbers. The error says what the user can change.
func (b *Book) Open(r Request) (*World, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(r); err != nil {
		return nil, err
	}
	b.last++
	w := newWorld(b.last, r)
	for range r.Count() {
		number := b.may.First + b.given*b.may.Step
		b.given++
		w.Ranks = append(w.Ranks, number)
		b.worlds[number] = w
	}
	return w, nil
}

func (b *Book) check(r Request) error {
	n := r.Count()
	switch {
	case b.may.Most == 0:
		return errors.New("this job may spawn none (--max-spawn)")
	case n < 1:
		return errors.New("a program is for no rank")
	case len(b.worlds)+n > b.may.Most:
		return fmt.Errorf("%d spawned ranks would run on this host, and --max-spawn allows %d", len(b.worlds)+n, b.may.Most)
	case b.given+n > b.may.Total:
		return fmt.Errorf("ranks of this host have spawned %d in this job, and can spawn %d", b.given, b.may.Total)
	}
	for _, p := range r.Programs {
		if p.Ranks < 0 {
			return fmt.Errorf("a program is for %d ranks", p.Ranks)
		}
		if p.Host != "" && p.Host != b.host && p.Host != "localhost" {
			return fmt.Errorf("they can run only on %s, the host of the rank that asks, and the key host of MPI_Info is %q", b.host, p.Host)
		}
	}
	return nil
}

// Of returns the world of a spawned rank that runs, or nil.
func (b *Book) Of(number int) *World {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.worlds[number]
}

// Ended records that a spawned rank has ended.
func (b *Book) Ended(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.worlds, number)
}

// Worlds lists those with ranks that run.
func (b *Book) Worlds() (all []*World) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[*World]bool{}
	for _, w := range b.worlds {
		if !seen[w] {
			seen[w] = true
			all = append(all, w)
		}
	}
	return all
}
