package stacks

import (
	"regexp"
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

// Worth reports whether a note of a rank says that others have not come to its collective, and the
// last look was long ago.
func (s *Stalls) Worth(note string, now time.Time) bool {
	if !regexp.MustCompile(`, has waited [0-9a-zµ.]+ for ranks? [0-9]`).MatchString(note) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < stallPause {
		return false
	}
	s.last = now
	return true
}
