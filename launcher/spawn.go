package launcher

import (
	"slices"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// spawnCoordinator answers the requests of a job's ranks through the sessions with its hosts. It is
// not safe for concurrent use.
type spawnCoordinator struct {
	placements *plan.Placements
	sessions   []*session.Session
	spawned    func(ranks []int)
}

// newSpawnCoordinator returns the coordinator of a job that is about to start, with the sessions in
// the order of its hosts. It calls spawned with the numbers of ranks that it has started.
func newSpawnCoordinator(p plan.Plan, sessions []*session.Session, spawned func(ranks []int)) *spawnCoordinator {
	return &spawnCoordinator{plan.NewPlacements(p), sessions, spawned}
}

// request starts the ranks that a host requests, or tells the host why it cannot.
func (c *spawnCoordinator) request(from *session.Session, r wire.SpawnRequest) {
	w, err := c.placements.Open(from.Index, r)
	if err != nil {
		from.Out.SendMessage(wire.TypeWorld, wire.World{ID: r.ID, By: r.By, Refused: err.Error()})
		return
	}
	here := make([]bool, len(c.sessions)) // the hosts that run a rank of the world
	for rank, number := range w.Numbers {
		c.sessions[w.HostOf[rank]].Spawn(number)
		here[w.HostOf[rank]] = true
	}
	c.spawned(w.Numbers)
	full := session.Encode(w)
	elsewhere := session.Encode(outline(w))
	for i, s := range c.sessions {
		if here[i] {
			s.Out.Send(wire.TypeWorld, full)
		} else {
			s.Out.Send(wire.TypeWorld, elsewhere)
		}
	}
}

// outline returns what hosts without a rank of the world learn of it. A host that may spawn only on
// itself must not fill the queues of others with what its ranks were given.
func outline(w wire.World) wire.World {
	w.Given = nil
	w.Programs = slices.Clone(w.Programs)
	for i, p := range w.Programs {
		w.Programs[i] = wire.SpawnProgram{Ranks: p.Ranks}
	}
	return w
}

// ended records the end of a rank. After the last one, agents that only wait for ranks end.
func (c *spawnCoordinator) ended(host, rank int) {
	if !c.placements.Ended(host, rank) {
		return
	}
	for _, s := range c.sessions {
		if len(s.Host.Ranks) == 0 {
			s.Out.SendMessage(wire.TypeStop, wire.Stop{})
		}
	}
}

// left records that a host has ended. It returns a rank that was to be spawned there, and was not,
// or -1.
func (c *spawnCoordinator) left(host int) int { return c.placements.Left(host) }
