package session

import (
	"maps"
	"slices"
	"sync"
)

// spawned are the ranks that were spawned on a host and run.
type spawned struct {
	mu    sync.Mutex
	ranks map[int]bool
}

// Spawn records that a rank is spawned on the host.
func (s *Session) Spawn(rank int) {
	s.spawned.mu.Lock()
	defer s.spawned.mu.Unlock()
	if s.spawned.ranks == nil {
		s.spawned.ranks = map[int]bool{}
	}
	s.spawned.ranks[rank] = true
}

func (s *Session) spawnedEnded(rank int) {
	s.spawned.mu.Lock()
	defer s.spawned.mu.Unlock()
	delete(s.spawned.ranks, rank)
}

// runs reports whether a rank was planned on the host, or is spawned there and has not ended.
func (s *Session) runs(rank int) bool {
	s.spawned.mu.Lock()
	defer s.spawned.mu.Unlock()
	return s.Host.Planned(rank) || s.spawned.ranks[rank]
}

// Spawned lists the ranks that were spawned on the host and have not ended, ascending.
func (s *Session) Spawned() []int {
	s.spawned.mu.Lock()
	defer s.spawned.mu.Unlock()
	return slices.Sorted(maps.Keys(s.spawned.ranks))
}
