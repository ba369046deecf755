package shm

import (
	"sync/atomic"

	"github.com/gorun/gorun/internal/release"
)

// announcement is the call that a rank is in. Only that rank writes it, by release stores: others
// read it only when they have waited in vain.
type announcement struct {
	place uint64
	// signs has the sign of a place at its last two bits: places grow by at most 2, so the
	// sign of one is not overwritten before the rank has announced the next.
	signs [4]uint64
}

func (a *announcement) sign(place uint64) *uint64 { return &a.signs[place%4] }

// Announce publishes the call that this rank is in, so that ranks in different calls that
// wait for each other find out. Place numbers the calls: 2k-1 is the k-th collective, which
// all ranks make, and 2k all messages between it and the next. Signs are those of the
// collectives, equal on all ranks.
func (g *Group) Announce(place, sign uint64) {
	g.wait.place = place
	g.wait.sign = sign
	g.wait.slow = false
	mine := &g.seg.controls[g.rank].call
	release.Store(mine.sign(place), sign)
	release.Store(&mine.place, place)
	g.wait.crowd.locate()
}

// Waited reports whether this rank has waited for another since Announce, longer than the some
// microseconds that it spins.
func (g *Group) Waited() bool { return g.wait.slow }

// Assemble announces this rank's next collective, waits for some microseconds for all ranks to
// announce it, and reports whether they have. A rank makes the call that it has announced.
func (g *Group) Assemble(place, sign uint64) bool {
	g.Announce(place, sign)
	here := func() bool {
		for _, control := range g.seg.controls {
			if atomic.LoadUint64(&control.call.place) < place {
				return false
			}
		}
		return true
	}
	return here() || g.wait.look(here)
}

// Meanwhile sets a check that this rank makes at intervals while it waits. An error of look
// ends the wait.
func (g *Group) Meanwhile(look func() error) { g.wait.idle = look }

// differs returns a *SignError if rank q is in another collective of the same number, or in
// a later call, so that a wait for it cannot end. The caller must read q's counters once
// more: q may have made the awaited step before it announced that call.
func (w *waiter) differs(q int) error {
	theirs := &w.controls[q].call
	place := atomic.LoadUint64(&theirs.place)
	sign := atomic.LoadUint64(theirs.sign(place))
	if atomic.LoadUint64(&theirs.place) != place {
		return nil
	}
	collective := place%2 == 1
	if place > w.place || collective && place == w.place && sign != w.sign {
		return &SignError{Rank: q, Mine: w.sign, Theirs: sign}
	}
	return nil
}
