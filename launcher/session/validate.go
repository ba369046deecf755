package session

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// A host may be compromised, so its agent's messages are data: they concern only its own ranks, are
// bounded, and texts for people have no control bytes. A host whose agent violates that counts as
// lost; others are unaffected.

const (
	maxGets = 1 << 13 // requests of one host that wait for keys
	// maxNotes bounds the notes per host that are shown. Programs should use their output instead.
	maxNotes = 100
)

// record is the state of the checks of one agent's messages.
type record struct {
	exited map[int]bool
	notes  int
}

// Clean returns a host's text, bounded and safe for a terminal.
func Clean(text string) string { return prose.Printable(text) }

// CheckExit validates an exit: each rank of the agent ends once, with a code or signal that a
// process can have.
func (s *Session) CheckExit(e *wire.Exit) error {
	switch {
	case !s.Owns(e.Rank):
		return ForeignRank(e.Rank)
	case s.seen.exited[e.Rank]:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says twice that rank %d has ended", e.Rank)}
	case e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 127:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d ended with code %d, signal %d",
			e.Rank, e.Code, e.Signal)}
	case e.MPI != "" && e.MPI != wire.MPIAborted && e.MPI != wire.MPIUnfinished:
		return &wire.FormatError{Reason: fmt.Sprintf("the agent says that rank %d ended as %.40q", e.Rank, e.MPI)}
	}
	if s.seen.exited == nil {
		s.seen.exited = map[int]bool{}
	}
	s.seen.exited[e.Rank] = true
	s.spawnedEnded(e.Rank)
	e.Failed = Clean(e.Failed)
	e.OutOfMemory = wire.OutOfMemory(Clean(string(e.OutOfMemory)))
	return nil
}

// CheckDone validates a done: all ranks of the agent have ended.
func (s *Session) CheckDone() error {
	for _, r := range s.Host.Ranks {
		if !s.seen.exited[r.Rank] {
			return &wire.FormatError{Reason: fmt.Sprintf("the agent is done, and has not said how rank %d ended",
				r.Rank)}
		}
	}
	return nil
}

// CheckLost validates a lost: one of the agent's ranks lost a rank that exists.
func (s *Session) CheckLost(l *wire.Lost, size int) error {
	switch {
	case !s.Owns(l.By):
		return ForeignRank(l.By)
	case l.Rank != l.By && (l.Rank < 0 || l.Rank >= size):
		return &wire.FormatError{Reason: fmt.Sprintf("rank %d lost rank %d, which does not exist", l.By, l.Rank)}
	}
	l.Cause = Clean(l.Cause)
	l.Awaited = l.Awaited && l.Rank == l.By
	return nil
}

// CheckEntered validates an entered: its ranks are the agent's.
func (s *Session) CheckEntered(e *wire.Entered) error {
	for _, rank := range e.Ranks {
		if !s.Owns(rank) {
			return ForeignRank(rank)
		}
	}
	return nil
}

// CheckSpawn validates that more ranks are asked for on behalf of one of the agent's.
func (s *Session) CheckSpawn(r *wire.SpawnRequest) error {
	if !s.Owns(r.By) {
		return ForeignRank(r.By)
	}
	return nil
}

// CheckNote validates that a note is from one of the agent's ranks, and reports whether to show it.
func (s *Session) CheckNote(n *wire.Note) (worth bool, err error) {
	if !s.Owns(n.By) {
		return false, ForeignRank(n.By)
	}
	n.Text = Clean(n.Text)
	s.seen.notes++
	return s.seen.notes <= maxNotes, nil
}

// CheckFence validates a fence: its values are those of the agent's ranks, and within the rank
// server's bounds.
func CheckFence(f wire.Fence, owns func(rank int) bool) error {
	if len(f.Name) > kv.MaxKey {
		return &wire.FormatError{Reason: fmt.Sprintf("a fence's name of %d bytes", len(f.Name))}
	}
	for rank, value := range f.Values {
		switch {
		case !owns(rank):
			return ForeignRank(rank)
		case len(value) > kv.MaxFence:
			return &wire.FormatError{Reason: fmt.Sprintf("rank %d brings %d bytes to fence %.40q", rank, len(value),
				f.Name)}
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

// Clamp limits an agent's time to the interval between from and to: ranks end after they were
// started, and not after now. A wrong clock can then only make its own ranks the first to fail.
func Clamp(at, from, to time.Duration) time.Duration { return max(from, min(at, to)) }

// ForeignRank is the error for a message about a rank that is not the agent's.
func ForeignRank(rank int) error {
	return &wire.FormatError{Reason: fmt.Sprintf("the agent spoke for rank %d, which is not its own", rank)}
}

// Owns reports whether a rank is the agent's.
func (s *Session) Owns(rank int) bool { return s.Host.Has(rank) }

// RankNow returns the number of a rank of the host in the job now. In an elastic job it changes.
func (s *Session) RankNow(rank int) int {
	if s.Number == nil {
		return rank
	}
	return s.Number(rank)
}
