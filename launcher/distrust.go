package launcher

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/wire"
)

// A host may be in other hands than the user's. What its agent says is data: it is about the agent's own
// ranks, it has bounds, and text that people will see has no control bytes. An agent that breaks that has its host
// counted as lost, and nobody else's.

const (
	maxText = 4 << 10 // bytes of one text of a host's
	maxGets = 1 << 13 // requests of one host that wait for keys
	// maxNotes is how many lines of a host's ranks the user is shown; what a program has to say goes to its output.
	maxNotes = 100
)

// record is what a session's reader remembers of what the agent has said.
type record struct {
	exited map[int]bool
	notes  int
}

// cleaned is a host's text, short and safe for a terminal.
func cleaned(text string) string { return prose.Printable(text[:min(len(text), maxText)]) }

// checkExit makes sure that a rank ends once, as a process can.
func (s *session) checkExit(e *wire.Exit) error {
	switch {
	case !s.owns(e.Rank):
		return foreign(e.Rank)
	case s.said.exited[e.Rank]:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says twice that rank %d has ended", e.Rank)}
	case e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 127:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d ended with code %d, signal %d", e.Rank, e.Code, e.Signal)}
	}
	if s.said.exited == nil {
		s.said.exited = map[int]bool{}
	}
	s.said.exited[e.Rank] = true
	e.Failed, e.OutOfMemory = cleaned(e.Failed), wire.OutOfMemory(cleaned(string(e.OutOfMemory)))
	return nil
}

// checkDone makes sure that a host's end is the end of all its ranks.
func (s *session) checkDone() error {
	for _, r := range s.host.Ranks {
		if !s.said.exited[r.Rank] {
			return &wire.FormatError{Reason: fmt.Sprintf("the agent is done, and has not said how rank %d ended", r.Rank)}
		}
	}
	return nil
}

// checkLost makes sure that one of the agent's ranks lost one that there is.
func (s *session) checkLost(l *wire.Lost, size int) error {
	switch {
	case !s.owns(l.By):
		return foreign(l.By)
	case l.Rank < 0 || l.Rank >= size:
		return &wire.FormatError{Reason: fmt.Sprintf("rank %d lost rank %d, which does not exist", l.By, l.Rank)}
	}
	l.Cause = cleaned(l.Cause)
	return nil
}

// checkNote makes sure that a line is of one of the agent's ranks, and says whether the user is to see it.
func (s *session) checkNote(n *wire.Note) (worth bool, err error) {
	if !s.owns(n.By) {
		return false, foreign(n.By)
	}
	n.Text = cleaned(n.Text)
	s.said.notes++
	return s.said.notes <= maxNotes, nil
}

// checkFence makes sure that values are of the agent's ranks, and no larger than a door takes.
func checkFence(f wire.Fence, owns func(rank int) bool) error {
	if len(f.Name) > kv.MaxKey {
		return &wire.FormatError{Reason: fmt.Sprintf("a fence's name of %d bytes", len(f.Name))}
	}
	for rank, value := range f.Values {
		switch {
		case !owns(rank):
			return foreign(rank)
		case len(value) > kv.MaxFence:
			return &wire.FormatError{Reason: fmt.Sprintf("rank %d brings %d bytes to fence %.40q", rank, len(value), f.Name)}
		}
	}
	return nil
}

func checkGet(g wire.Get) error {
	if len(g.Key) > kv.MaxKey || g.Wait < 0 {
		return &wire.FormatError{Reason: fmt.Sprintf("a request for a key of %d bytes, for %v", len(g.Key), g.Wait)}
	}
	return nil
}

// within puts an agent's time between two of ours: ranks end after they were started, and not after now. So
// a clock that lies can only make its own ranks the first to fail.
func within(at, from, to time.Duration) time.Duration { return max(from, min(at, to)) }
