package elastic

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/hostfile"
)

const (
	pollEvery  = time.Second
	pollAgain  = 200 * time.Millisecond // after a poll by which there is more than was believed, and nothing less
	maxBackoff = 30 * time.Second
	emptyPolls = 3 // that make an empty list believed
	equalPolls = 2 // that make a change of a host believed
)

// Sightings makes a list that can be believed of what a script says from poll to poll. The zero value has seen nothing.
// It is pure.
type Sightings struct {
	believed []hostfile.Host
	began    bool
	failures int // in a row
	empty    int // in a row
	doubts   map[string]doubt
}

// doubt is what the last polls said of a host and is not believed yet.
type doubt struct {
	seen  hostfile.Host // zero: it is not there
	polls int
}

// Sight is what is believed after a poll.
type Sight struct {
	Hosts   []hostfile.Host // known ones keep their place, new ones come last
	Changed bool            // Hosts differ from those of the poll before
	Next    time.Duration   // when to poll again
	Warning string          // for the user; "": none
	Fatal   error           // the first poll failed: there are no hosts to begin with
}

// Polled takes the hosts or the error of a poll that ended now. The first list is believed at once, and its error is
// fatal. Later a failed poll keeps what was believed, a change of a host counts when a second poll says the same, which comes
// soon if there is more only, and an empty list when it comes a third time in a row.
func (s *Sightings) Polled(hosts []hostfile.Host, err error, now time.Duration) Sight {
	sight := Sight{Next: now + pollEvery}
	switch {
	case err != nil && !s.began:
		sight.Fatal = fmt.Errorf("find the job's hosts: %w", err)
		return sight
	case err != nil:
		sight.Next = now + s.backoff()
		if s.failures++; s.failures == 1 {
			sight.Warning = fmt.Sprintf("cannot ask for hosts, and keep those that are known (%d): %v", len(s.believed), err)
		}
	case !s.began:
		s.began, s.believed, sight.Changed = true, slices.Clone(hosts), true
	default:
		if s.failures > 0 {
			sight.Warning = "the discovery script answers again"
		}
		s.failures = 0
		sight.Changed = s.weigh(hosts)
		if s.growing() {
			sight.Next = now + pollAgain
		}
	}
	sight.Hosts = slices.Clone(s.believed)
	return sight
}

// growing reports whether all that is in doubt is more than was believed: a list that was read while it was written shows
// so at once, and hosts that are no good do no harm. What goes has a second to come back.
func (s *Sightings) growing() bool {
	known := byName(s.believed)
	for name, d := range s.doubts {
		if d.seen.Slots <= known[name].Slots {
			return false
		}
	}
	return len(s.doubts) > 0
}

// backoff is how long to wait after another failure.
func (s *Sightings) backoff() time.Duration {
	return min(pollEvery<<min(s.failures+1, 10), maxBackoff)
}

func (s *Sightings) weigh(hosts []hostfile.Host) (changed bool) {
	if len(hosts) == 0 && len(s.believed) > 0 {
		if s.empty++; s.empty < emptyPolls {
			return false
		}
		s.believed, s.doubts = nil, nil
		return true
	}
	s.empty = 0
	doubts := map[string]doubt{}
	seen, known := byName(hosts), byName(s.believed)
	var kept []hostfile.Host
	for _, old := range s.believed {
		now, differs := s.doubted(old, seen[old.Name], doubts)
		changed = changed || differs
		if now.Name != "" {
			kept = append(kept, now)
		}
	}
	for _, h := range hosts {
		if known[h.Name].Name == "" {
			now, differs := s.doubted(hostfile.Host{}, h, doubts)
			changed = changed || differs
			if now.Name != "" {
				kept = append(kept, now)
			}
		}
	}
	s.believed, s.doubts = kept, doubts
	return changed
}

// doubted is what to believe of a host that was old and is seen now; what is not believed yet goes into doubts.
func (s *Sightings) doubted(old, seen hostfile.Host, doubts map[string]doubt) (now hostfile.Host, changed bool) {
	if old == seen {
		return old, false
	}
	name := old.Name + seen.Name
	if old.Name != "" {
		name = old.Name
	}
	d := s.doubts[name]
	if d.seen != seen || d.polls == 0 {
		d = doubt{seen: seen}
	}
	if d.polls++; d.polls >= equalPolls {
		return seen, true
	}
	doubts[name] = d
	return old, false
}

func byName(hosts []hostfile.Host) map[string]hostfile.Host {
	m := make(map[string]hostfile.Host, len(hosts))
	for _, h := range hosts {
		m[h.Name] = h
	}
	return m
}
