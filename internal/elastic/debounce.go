package elastic

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/hostfile"
)

const (
	pollEvery  = 750 * time.Millisecond // period of polls, so that a change counts within a second
	pollAgain  = 200 * time.Millisecond // delay after a poll that only adds hosts or slots
	minBackoff = 2 * time.Second
	maxBackoff = 30 * time.Second
	emptyPolls = 3 // consecutive polls that confirm an empty list
	equalPolls = 2 // consecutive polls that confirm a change of a host
)

// Debouncer filters the lists that a discovery script prints from poll to poll. The zero value has
// seen no poll. It is pure.
type Debouncer struct {
	Prompt bool // whether removals are confirmed as soon as additions

	list     []hostfile.Host
	began    bool
	failures int // consecutive failed polls
	empty    int // consecutive empty polls
	pending  map[string]unconfirmed
}

// unconfirmed is a change of a host that is not confirmed yet.
type unconfirmed struct {
	seen  hostfile.Host // entry in those polls; zero if not listed
	polls int
}

// Debounced is the list after a poll.
type Debounced struct {
	Hosts   []hostfile.Host // known hosts keep their position, new ones come last
	Changed bool            // whether Hosts differ from the list before the poll
	Next    time.Duration   // time of the next poll
	Warning string          // warning for the user, or ""
	Fatal   error           // error of the first poll, without which there are no hosts
}

// Polled handles the hosts or the error of a poll that ended now. The first list counts at once,
// and its error is fatal. A later poll that fails keeps the list; a change of a host counts when a
// second poll confirms it, which follows soon if hosts or slots are only added; an empty list
// counts when three consecutive polls return it.
func (s *Debouncer) Polled(hosts []hostfile.Host, err error, now time.Duration) Debounced {
	polled := Debounced{Next: now + pollEvery}
	switch {
	case err != nil && !s.began:
		polled.Fatal = fmt.Errorf("find the job's hosts: %w", err)
		return polled
	case err != nil:
		polled.Next = now + min(minBackoff<<min(s.failures, 10), maxBackoff)
		if s.failures++; s.failures == 1 {
			polled.Warning = fmt.Sprintf("cannot ask for hosts, and keep those that are known (%d): %v", len(s.list),
				err)
		}
	case !s.began:
		s.began = true
		s.list = slices.Clone(hosts)
		polled.Changed = true
	default:
		if s.failures > 0 {
			polled.Warning = "hosts can be asked for again"
		}
		s.failures = 0
		polled.Changed = s.weigh(hosts)
		if s.growing() || s.Prompt && len(s.pending) > 0 {
			polled.Next = now + pollAgain
		}
	}
	polled.Hosts = slices.Clone(s.list)
	return polled
}

// growing reports whether all unconfirmed changes add hosts or slots. Those are confirmed soon: a
// list that was read while it was being written differs at once, and an extra host does no harm. A
// removed host has a full poll interval to come back.
func (s *Debouncer) growing() bool {
	known := byName(s.list)
	for name, d := range s.pending {
		if d.seen.Slots <= known[name].Slots {
			return false
		}
	}
	return len(s.pending) > 0
}

func (s *Debouncer) weigh(hosts []hostfile.Host) (changed bool) {
	if len(hosts) == 0 && len(s.list) > 0 {
		if s.empty++; s.empty < emptyPolls {
			return false
		}
		s.list = nil
		s.pending = nil
		return true
	}
	s.empty = 0
	pending := map[string]unconfirmed{}
	seen := byName(hosts)
	known := byName(s.list)
	var kept []hostfile.Host
	for _, old := range s.list {
		now, differs := s.confirm(old, seen[old.Name], pending)
		changed = changed || differs
		if now.Name != "" {
			kept = append(kept, now)
		}
	}
	for _, h := range hosts {
		if known[h.Name].Name == "" {
			now, differs := s.confirm(hostfile.Host{}, h, pending)
			changed = changed || differs
			if now.Name != "" {
				kept = append(kept, now)
			}
		}
	}
	s.list = kept
	s.pending = pending
	return changed
}

// confirm returns the state of a host that was old and is now listed as seen. Unconfirmed changes
// go into pending.
func (s *Debouncer) confirm(old, seen hostfile.Host, pending map[string]unconfirmed) (now hostfile.Host, changed bool) {
	if old == seen {
		return old, false
	}
	name := old.Name + seen.Name
	if old.Name != "" {
		name = old.Name
	}
	d := s.pending[name]
	if d.seen != seen || d.polls == 0 {
		d = unconfirmed{seen: seen}
	}
	if d.polls++; d.polls >= equalPolls {
		return seen, true
	}
	pending[name] = d
	return old, false
}

func byName(hosts []hostfile.Host) map[string]hostfile.Host {
	m := make(map[string]hostfile.Host, len(hosts))
	for _, h := range hosts {
		m[h.Name] = h
	}
	return m
}
