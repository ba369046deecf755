package session

import (
	"slices"
	"sync"
)

// Registry holds the sessions whose ranks run, for requests of hosts beside the job. A nil Registry
// holds none. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	sessions []*Session
}

// During holds a session while run reads it, and then ends its errands.
func (r *Registry) During(s *Session, run func(*Session) error) error {
	if r == nil {
		return run(s)
	}
	r.mu.Lock()
	r.sessions = append(r.sessions, s)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sessions = slices.DeleteFunc(r.sessions, func(other *Session) bool { return other == s })
		s.errands.close()
	}()
	return run(s)
}

// Of returns the session of a rank that the job has started, or that is spawned and runs, or nil.
func (r *Registry) Of(rank int) *Session {
	return r.find(func(s *Session) bool { return s.runs(rank) })
}

// On returns a session with a host, or nil.
func (r *Registry) On(host string) *Session {
	return r.find(func(s *Session) bool { return s.Host.Name == host })
}

func (r *Registry) find(is func(*Session) bool) *Session {
	for _, s := range r.All() {
		if is(s) {
			return s
		}
	}
	return nil
}

// All returns all sessions.
func (r *Registry) All() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sessions)
}
