package stacks

import (
	"sync"
	"time"
)

// stallPause is the least time between two looks at ranks because of stall reports: a job that is
// slow reports again and again.
const stallPause = 10 * time.Minute

// Stalls chooses which of ring's stall reports are worth a look at all ranks. It is safe for
// concurrent use.
type Stalls struct {
	mu   sync.Mutex
	last time.Time
}

// Due reports whether a look is due, and if so records now as the time of the last one.
func (s *Stalls) Due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < stallPause {
		return false
	}
	s.last = now
	return true
}
