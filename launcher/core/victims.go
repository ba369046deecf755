package core

import (
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// leftTime is how long after a call failed because a rank had left, the caller's own failure
	// counts as a consequence.
	leftTime = time.Minute
	// originTime is how long the stop waits for the end of the rank that began it: interpreters
	// take time to end.
	originTime = 5 * time.Second
)

// victims are ranks that have reported another rank before they ended themselves.
type victims map[int]loss

type loss struct {
	rank  int           // that was lost
	until time.Duration // when the rank's own failure is no consequence any more; 0: never
}

// add records a report at time now.
func (v victims) add(l wire.Lost, now time.Duration) {
	until := time.Duration(0)
	if l.Left {
		if _, known := v[l.By]; known || v.origin(l.Rank) == l.By { // the rank that began it loses the others, too
			return
		}
		until = now + leftTime
	}
	v[l.By] = loss{l.Rank, until}
}

// includes reports whether e, a failure, is a consequence.
func (v victims) includes(e Exit) bool {
	lost, ok := v[e.Rank]
	return ok && (lost.until == 0 || e.At <= lost.until)
}

// origin returns the rank that rank lost, or the one which that rank had lost before, and so on.
func (v victims) origin(rank int) int {
	for range len(v) {
		lost, ok := v[rank]
		if !ok {
			break
		}
		rank = lost.rank
	}
	return rank
}
