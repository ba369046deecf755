package tcp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/flow"
)

// Ranks in different calls may wait for each other in a circle in which nobody gets the
// sign of another call: each reads from one rank only. So a rank that waits for the
// start of a flow for a tick sends a note to the rank that it waits for: its own sign, with
// the last byte set. It also looks what has come on its other links, without taking it,
// and answers a note of a rank that is in an earlier call with one of its own.
//
// A note stands in line with flows. So a rank that finds one of a later call from the
// rank it waits for knows that what it waits for was not sent.

// Relation is how another rank's call stands to this one's.
type Relation int

const (
	Together Relation = iota // they may be halves of one call
	Clash                    // they cannot both be right
	Earlier                  // the other rank's comes first
	Later                    // this rank's comes first
)

const (
	mark = flow.SignSize - 1 // byte of a sign
	note = 1                 // in it
)

// doubt looks for other calls while the sign that should come does not.
func (s *stream) doubt() error {
	if s.index > 0 || s.from == nil || s.signed || s.net.cfg.Compare == nil {
		return nil
	}
	if err := s.net.hark(s.flow.Sign, s.flow); err != nil {
		return err
	}
	return s.tell(s.net.links[s.flow.From])
}

// Doubt looks for other calls while no flow is under way: this rank is in the call that
// sign stands for, and waits for something else than the network. The error is a
// [*SignError] or a [*PeerError].
func (n *Net) Doubt(sign *flow.Sign) error {
	if n.cfg.Compare == nil || n.halted.Load() {
		return nil
	}
	if *sign != n.doubted {
		n.doubted = *sign
		n.flows++
	}
	return n.hark(sign, &flow.Flow{Sign: sign, To: flow.None, From: flow.None})
}

// hark looks what has come on all links, but for the one that f receives from.
func (n *Net) hark(sign *flow.Sign, f *flow.Flow) error {
	if err := n.welcome(); err != nil {
		return err
	}
	for _, l := range n.links {
		if l == nil || l.rank == f.From {
			continue
		}
		theirs, noted, ok := peek(&l.sockets[0])
		if !ok {
			continue
		}
		relation := n.cfg.Compare(sign, theirs)
		switch {
		case relation == Clash, relation == Earlier && !noted: // nobody will take that flow any more
			return &SignError{Rank: l.rank, Theirs: *theirs}
		case relation == Earlier:
			if err := n.tell(l, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// welcome makes links of connections that have come and that no flow has needed.
func (n *Net) welcome() error {
	for rank := range n.rank {
		if n.links[rank] != nil {
			continue
		}
		if conns, ok := n.lobby.take(rank); ok {
			if err := n.adopt(rank, conns); err != nil {
				return &PeerError{rank, err}
			}
		}
	}
	return nil
}

// tell sends a note to the rank that this flow waits for, or that asks.
func (s *stream) tell(l *link) error { return s.net.tell(l, s.flow) }

// tell sends a note, once during a flow. Nothing else goes that way in the meantime: a
// rank that this flow sends to has the sign already. One that has left may have sent before
// that all it had to: who receives from it finds out.
func (n *Net) tell(l *link, f *flow.Flow) error {
	if l.rank == f.To || l.noted == n.flows {
		return nil
	}
	l.noted = n.flows
	text := *f.Sign
	text[mark] = note
	sent, err := l.sockets[0].note(text[:])
	switch {
	case err == unix.EAGAIN:
		return nil // it does not read, so it will not wait for this either
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

// peek returns the sign that has come on a connection, and whether it is a note, and
// leaves it there.
func peek(s *socket) (theirs *flow.Sign, noted, ok bool) {
	theirs = new(flow.Sign)
	n, err := s.peek(theirs[:])
	if err != nil || n < len(theirs) {
		return nil, false, false
	}
	noted = theirs[mark] == note
	theirs[mark] = 0
	return theirs, noted, true
}

// read takes a note out of the inbox.
func (s *stream) read() error {
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
		return s.tell(s.net.links[s.flow.From])
	}
	return nil
}
