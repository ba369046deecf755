package shm

import "sync/atomic"

// announcement is the call that a rank is in. Only that rank writes it.
type announcement struct {
	place atomic.Uint64 // 0 while sign changes
	sign  atomic.Uint64
}

// Announce publishes the call that this rank is in, so that ranks in different calls that
// wait for each other find out. Place numbers the calls: 2k-1 is the k-th collective, which
// all ranks make, and 2k all messages between it and the next. Signs are those of the
// collectives, equal on all ranks.
func (g *Group) Announce(place, sign uint64) {
	g.wait.place, g.wait.sign = place, sign
	mine := &g.seg.controls[g.rank].call
	mine.place.Store(0)
	mine.sign.Store(sign)
	mine.place.Store(place)
}

// Meanwhile sets a check that this rank makes at intervals while it waits. An error of look
// ends the wait.
func (g *Group) Meanwhile(look func() error) { g.wait.idle = look }

// differs returns a *SignError if rank q is in another collective of the same number, or in
// a later call, so that a wait for it cannot end. The caller must read q's counters once
// more: q may have made the awaited step before it announced that call.
func (w *waiter) differs(q int) error {
	theirs := &w.controls[q].call
	place := theirs.place.Load()
	sign := theirs.sign.Load()
	if theirs.place.Load() != place {
		return nil
	}
	collective := place%2 == 1
	if place > w.place || collective && place == w.place && sign != w.sign {
		return &SignError{Rank: q, Mine: w.sign, Theirs: sign}
	}
	return nil
}
