// Package link finds out whether the network under an agent's SSH connection still carries
// anything.
package link

import (
	"fmt"
	"time"
)

const (
	// Period is how often the agent reads its connection.
	Period = 250 * time.Millisecond
	// deadTime is how long a connection may make no progress with unacknowledged data. It exceeds
	// the launcher's bound (ssh.UserTimeout) by the time that a restored network needs to deliver.
	deadTime = 6100 * time.Millisecond
	// minTries is how often the kernel must have sent again without an answer by then.
	minTries = 2
)

// Reading is the kernel's state of the SSH connection to the launcher's side.
type Reading struct {
	Acked, Received uint64        // total bytes
	Unacked         int           // unacknowledged segments
	Retries         int           // retransmissions of the first of them
	Probes          int           // unanswered probes for room at the other end
	Full            bool          // the other end has no room
	Heard           time.Duration // time since the last acknowledgement
}

// Monitor recognises a dead network, or a dead kernel at its other end. A launcher that only hangs
// or was stopped has a kernel that acknowledges the agent's heartbeats.
type Monitor struct {
	seen Reading
	at   time.Duration // time of the last progress
	any  bool          // there was a reading
}

// Dead returns how long nothing has got through, or 0.
func (n *Monitor) Dead(r Reading, now time.Duration) time.Duration {
	if !n.any || r.Acked != n.seen.Acked || r.Received != n.seen.Received {
		n.at = now - min(r.Heard, Period)
		n.any = true
	}
	n.seen = r
	silent := now - n.at
	if r.Full || r.Unacked == 0 {
		// Only probes for room can be acknowledged. A living kernel does that without limit.
		silent = min(silent, r.Heard)
		r.Retries = max(r.Retries, r.Probes)
	}
	if silent < deadTime || r.Retries < minTries {
		return 0
	}
	return silent
}

// Describe is the cause for which the launcher counts as lost.
func Describe(silent time.Duration) string {
	return fmt.Sprintf("the network to gorun is dead: nothing got through for %.1f s", silent.Seconds())
}
