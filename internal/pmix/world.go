package pmix

import (
	"context"
	"fmt"
	"slices"
)

// Program is run by some ranks that a rank spawns.
type Program struct {
	Argv  []string
	Env   []string // NAME=value
	Dir   string   // "": that of the rank that asks
	Host  string   // where it must run; "": anywhere
	Ranks int
}

// World is ranks that a rank of this host has spawned, all of them here.
type World struct {
	Number  int   // 1-based
	Numbers []int // of its ranks in the job, by rank
	By      int   // the number of the rank that has spawned them
	Layout
}

// Add describes a world, after which [Server.Environ] is known for its ranks.
func (s *Server) Add(ctx context.Context, w World) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	w.world = w.Number
	w.parentRank = w.By
	s.mu.Lock()
	for world, numbers := range s.numbers {
		if i := slices.Index(numbers, w.By); i >= 0 {
			w.parentWorld, w.parentRank = world, i
		}
	}
	s.numbers[w.Number] = w.Numbers
	s.mu.Unlock()
	if err := s.send(w.Layout.frame(w.byHost())); err != nil {
		return fmt.Errorf("describe the new ranks to gorun-pmix: %w", err)
	}
	select { // whatever the rank that asks does: the next description waits for this one
	case <-s.added:
		return ctx.Err()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// spawn starts programs for a rank.
func (s *Server) spawn(rank int, programs []Program) ([]byte, status) {
	if s.opts.Spawn == nil {
		return nil, broken
	}
	name, err := s.opts.Spawn(s.ctx, rank, programs)
	if err != nil {
		return nil, broken
	}
	return []byte(name), done
}

// programs reads the programs of a request.
func (m *message) programs() (all []Program) {
	for range m.count() {
		p := Program{Ranks: m.number(), Dir: string(m.text()), Host: string(m.text())}
		p.Argv, p.Env = m.names(), m.names()
		all = append(all, p)
	}
	return all
}
