package spawn

import (
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// Desk answers the requests of a job's ranks through the sessions with its hosts. It is not safe
// for concurrent use.
type Desk struct {
	book     *Book
	sessions []*session.Session
	spawned  func(ranks []int)
}

// NewDesk returns the desk of a job that is about to start, with the sessions in the order of its
// hosts. It calls spawned with the numbers of ranks that it has started.
func NewDesk(p plan.Plan, sessions []*session.Session, spawned func(ranks []int)) *Desk {
	return &Desk{NewBook(p), sessions, spawned}
}

// Request has ranks started that a host asks for, or tells the host why not.
func (d *Desk) Request(from *session.Session, r wire.SpawnRequest) {
	w, err := d.book.Open(from.Index, r)
	if err != nil {
		from.Out.SendMessage(wire.TypeWorld, wire.World{ID: r.ID, By: r.By, Refused: err.Error()})
		return
	}
	for rank, number := range w.Numbers {
		d.sessions[w.HostOf[rank]].Spawn(number)
	}
	d.spawned(w.Numbers)
	told := session.Encode(w)
	for _, s := range d.sessions {
		s.Out.Send(wire.TypeWorld, told)
	}
}

// Ended records the end of a rank. After the last one, agents that only wait for ranks end.
func (d *Desk) Ended(host, rank int) {
	if !d.book.Ended(host, rank) {
		return
	}
	for _, s := range d.sessions {
		if len(s.Host.Ranks) == 0 {
			s.Out.SendMessage(wire.TypeStop, wire.Stop{})
		}
	}
}

// Left records that a host has ended. It returns a rank that was to be spawned there, and was not,
// or -1.
func (d *Desk) Left(host int) int { return d.book.Left(host) }
