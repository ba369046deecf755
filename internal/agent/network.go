package agent

import (
	"fmt"
	"time"
)

const (
	// lookTime is how often the agent looks at its connection.
	lookTime = 250 * time.Millisecond
	// deadTime is how long a connection may make no progress while something was sent. It is longer than the
	// launcher's own bound (ssh.UserTimeout), by the time in which a network that is back shows it.
	deadTime = 6100 * time.Millisecond
	// minTries is how often the kernel must have tried in vain by then.
	minTries = 2
)

// reading is what the kernel knows of the connection that SSH has to the launcher's side.
type reading struct {
	acked, received uint64        // bytes, so far
	unacked         int           // segments sent and not acknowledged
	retries         int           // how often the first of them was sent again
	probes          int           // unanswered looks whether the other end has room again
	full            bool          // it has none
	heard           time.Duration // since the last acknowledgement
}

// network tells a dead network, or a dead kernel at its other end, from a launcher that hangs or was stopped:
// that one's kernel acknowledges the heartbeats, which the agent goes on to send.
type network struct {
	seen reading
	at   time.Duration // of the last progress
	any  bool          // there was a reading
}

// dead returns how long nothing has got through, or 0.
func (n *network) dead(r reading, now time.Duration) time.Duration {
	if !n.any || r.acked != n.seen.acked || r.received != n.seen.received {
		n.at, n.any = now-min(r.heard, lookTime), true
	}
	n.seen = r
	silent := now - n.at
	if r.full || r.unacked == 0 {
		// Nothing can be acknowledged but looks for room. A living kernel does that for however long.
		silent = min(silent, r.heard)
		r.retries = max(r.retries, r.probes)
	}
	if silent < deadTime || r.retries < minTries {
		return 0
	}
	return silent
}

// describeDead is why the launcher counts as gone.
func describeDead(silent time.Duration) string {
	return fmt.Sprintf("the network to gorun is dead: nothing got through for %.1f s", silent.Seconds())
}
