package tcp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/flow"
)

// Ranks in different calls may wait for each other in a cycle in which no rank receives
// the sign of another call, since each reads from one rank only. So a rank that has waited
// one tick for the start of a flow sends a note to the rank that it waits for: its own
// sign, with the last byte set. It also peeks at its other links, and answers the note of
// a rank in an earlier call with a note.
//
// Notes and flows stay in order. So a note of a later call proves that the other rank did
// not send the awaited flow.

// Relation relates another rank's call to this one's.
type Relation int

const (
	Together Relation = iota // they may be the same call
	Clash                    // they contradict each other
	Earlier                  // the other rank's call comes first
	Later                    // this rank's call comes first
)

const (
	mark = flow.SignSize - 1 // index of the byte in a sign
	note = 1                 // its value in a note
)

// checkCalls checks for other calls while the expected sign has not arrived.
func (s *stream) checkCalls() error {
	if s.index > 0 || s.from == nil || s.signed || s.net.cfg.Compare == nil {
		return nil
	}
	if err := s.net.inspect(s.flow.Sign, s.flow); err != nil {
		return err
	}
	return s.sendNote(s.net.links[s.flow.From])
}

// CheckCalls checks for other calls while no flow is running: this rank is in the call of sign
// and waits for something other than the network. The error is a [*SignError] or a
// [*PeerError].
func (n *Net) CheckCalls(sign *flow.Sign) error {
	if n.cfg.Compare == nil || n.halted.Load() {
		return nil
	}
	if *sign != n.checked {
		n.checked = *sign
		n.flows++
	}
	return n.inspect(sign, &flow.Flow{Sign: sign, To: flow.None, From: flow.None})
}

// inspect peeks at all links except the one that f receives from.
func (n *Net) inspect(sign *flow.Sign, f *flow.Flow) error {
	if err := n.acceptAll(); err != nil {
		return err
	}
	for _, l := range n.links {
		if l == nil || l.rank == f.From {
			continue
		}
		theirs, noted, ok := peek(l.conns[0])
		if !ok {
			continue
		}
		relation := n.cfg.Compare(sign, theirs)
		switch {
		case relation == Clash, relation == Earlier && !noted: // no rank will receive that flow
			return &SignError{Rank: l.rank, Theirs: *theirs}
		case relation == Earlier:
			if err := n.sendNote(l, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// acceptAll makes links of all connections that have arrived.
func (n *Net) acceptAll() error {
	for rank := range n.rank {
		if err := n.accept(rank); err != nil {
			return err
		}
	}
	return nil
}

// sendNote sends a note to the rank that this flow waits for.
func (s *stream) sendNote(l *link) error { return s.net.sendNote(l, s.flow) }

// sendNote sends a note, at most once per flow, unless the flow sends its sign to that rank
// anyway. A closed connection is no error here: the rank may have sent all its data before
// it left, and the receiver finds out.
func (n *Net) sendNote(l *link, f *flow.Flow) error {
	if l.rank == f.To || l.noted == n.flows {
		return nil
	}
	l.noted = n.flows
	text := *f.Sign
	text[mark] = note
	sent, err := l.conns[0].Note(text[:])
	switch {
	case err == unix.EAGAIN:
		return nil // it does not read, so it does not wait for this note
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return nil
	case err == nil && sent < len(text):
		err = errors.New("no room for a note")
	}
	if err != nil && !n.halted.Load() {
		return &PeerError{l.rank, err}
	}
	return nil
}

// peek returns the next sign on a connection, if one has arrived, and whether it is a note.
// It does not consume the sign.
func peek(c conn) (theirs *flow.Sign, noted, ok bool) {
	theirs = new(flow.Sign)
	n, err := c.Peek(theirs[:])
	if err != nil || n < len(theirs) {
		return nil, false, false
	}
	noted = theirs[mark] == note
	theirs[mark] = 0
	return theirs, noted, true
}

// readNote takes a note out of the inbox.
func (s *stream) readNote() error {
	box := &s.inbox
	theirs := flow.Sign(box.memory[:flow.SignSize])
	theirs[mark] = 0
	box.end = copy(box.memory, box.memory[flow.SignSize:box.end])
	if s.net.cfg.Compare == nil {
		return nil
	}
	switch s.net.cfg.Compare(s.flow.Sign, &theirs) {
	case Clash, Later:
		return &SignError{Rank: s.flow.From, Theirs: theirs}
	case Earlier:
		return s.sendNote(s.net.links[s.flow.From])
	}
	return nil
}
