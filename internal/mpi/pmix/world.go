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
	Dir   string   // working directory; "": that of the rank that asks
	Host  string   // required host; "": any
	Ranks int
}

// World is a set of ranks that a rank has spawned.
type World struct {
	Job      string // name of the world
	Number   int    // 1-based number in the order of Add, which is the same on all hosts
	Numbers  []int  // numbers of the world's ranks in the job, by rank
	By       int    // number in the job of the rank that spawned the world
	HostOf   []int  // index of each rank's host in the job's layout, by rank
	Programs []int  // number of each rank's program, by rank
}

// place locates the ranks of the job or of a world.
type place struct {
	numbers []int // numbers in the job by rank; nil: equal to the ranks
	hostOf  []int // index of each rank's host, by rank
	told    bool  // whether the helper knows it; one that hears of an unknown world ends
}

// Add describes a world, after which [Server.Environ] is known for its ranks here. Worlds without a
// rank here are added too: ranks may meet them.
func (s *Server) Add(ctx context.Context, w World) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	l := Layout{
		Job:        w.Job,
		Folder:     s.layout.Folder,
		Hosts:      s.layout.Hosts,
		Host:       s.layout.Host,
		HostOf:     w.HostOf,
		Programs:   w.Programs,
		Universe:   s.layout.Universe,
		world:      w.Number,
		parentRank: w.By,
	}
	for _, host := range w.HostOf {
		if host < 0 || host >= len(l.Hosts) {
			return fmt.Errorf("a spawned rank is on host %d of %d", host, len(l.Hosts))
		}
	}
	s.mu.Lock()
	for world, p := range s.places {
		if i := slices.Index(p.numbers, w.By); i >= 0 {
			l.parentWorld = world
			l.parentRank = i
		}
	}
	of := place{numbers: w.Numbers, hostOf: w.HostOf}
	s.places[w.Number] = of
	s.mu.Unlock()
	if err := s.send(l.frame(l.byHost())); err != nil {
		return fmt.Errorf("describe the new ranks to gorun-pmix: %w", err)
	}
	select { // not bound to the request's context: the next description waits for this one
	case <-s.added:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.mu.Lock()
	of.told = true
	s.places[w.Number] = of
	close(s.grown) // others wait for the world
	s.grown = make(chan struct{})
	s.mu.Unlock()
	return ctx.Err()
}

// where returns the host of a rank of a world, or -1 if there is no such rank. It waits for a world
// that is about to be added, because the world's ranks on another host may start earlier.
func (s *Server) where(world, rank int) int {
	for {
		s.mu.Lock()
		p := s.places[world]
		grown := s.grown
		s.mu.Unlock()
		switch {
		case p.told && rank >= 0 && rank < len(p.hostOf):
			return p.hostOf[rank]
		case p.told || world < 0:
			return -1
		}
		select {
		case <-grown:
		case <-s.ctx.Done():
			return -1
		}
	}
}

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

func (m *message) programs() (all []Program) {
	for range m.count() {
		p := Program{Ranks: m.number(), Dir: string(m.text()), Host: string(m.text())}
		p.Argv = m.names()
		p.Env = m.names()
		all = append(all, p)
	}
	return all
}
