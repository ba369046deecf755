package shm

import "sync/atomic"

// announcement is what a rank says it does. Only that rank writes it.
type announcement struct {
	place atomic.Uint64 // 0 while sign changes
	sign  atomic.Uint64
}

// Announce says which call this rank is in, so that one that waits in vain for a rank in
// another call finds out, even where the two would not meet. Place numbers the calls:
// 2k-1 is the k-th collective, in which all ranks are together, and 2k all messages
// between it and the next. Signs are those of the collectives, equal on all ranks.
func (g *Group) Announce(place, sign uint64) {
	g.wait.place, g.wait.sign = place, sign
	mine := &g.seg.controls[g.rank].call
	mine.place.Store(0)
	mine.sign.Store(sign)
	mine.place.Store(place)
}

// Meanwhile sets what a rank does every now and then while it waits for another one in
// vain. Its error ends the wait.
func (g *Group) Meanwhile(look func() error) { g.wait.idle = look }

// differs returns a *SignError if rank q, which this one waits for, is in a call from
// which it will not come back: another collective in the same place, or a later
// call. What q did for this rank before that, it did before it said so: the caller
// looks once more.
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
