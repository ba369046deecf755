package agent

import (
	"fmt"
	"time"
)

const (
	// readPeriod is how often the agent reads its connection.
	readPeriod = 250 * time.Millisecond
	// deadTime is how long a connection may make no progress with unacknowledged data. It exceeds
	// the launcher's bound (ssh.UserTimeout) by the time that a restored network needs to deliver.
	deadTime = 6100 * time.Millisecond
	// minTries is how often the kernel must have sent again without an answer by then.
	minTries = 2
)

// lineReading is the kernel's state of the SSH connection to the launcher's side.
type lineReading struct {
	acked, received uint64        // total bytes
	unacked         int           // unacknowledged segments
	retries         int           // retransmissions of the first of them
	probes          int           // unanswered probes for room at the other end
	full            bool          // the other end has no room
	heard           time.Duration // time since the last acknowledgement
}

// networkMonitor recognises a dead network, or a dead kernel at its other end. A launcher that only
// hangs or was stopped has a kernel that acknowledges the agent's heartbeats.
type networkMonitor struct {
	seen lineReading
	at   time.Duration // time of the last progress
	any  bool          // there was a reading
}

// dead returns how long nothing has got through, or 0.
func (n *networkMonitor) dead(r lineReading, now time.Duration) time.Duration {
	if !n.any || r.acked != n.seen.acked || r.received != n.seen.received {
		n.at = now - min(r.heard, readPeriod)
		n.any = true
	}
	n.seen = r
	silent := now - n.at
	if r.full || r.unacked == 0 {
		// Only probes for room can be acknowledged. A living kernel does that without limit.
		silent = min(silent, r.heard)
		r.retries = max(r.retries, r.probes)
	}
	if silent < deadTime || r.retries < minTries {
		return 0
	}
	return silent
}

// describeDeath is the cause for which the launcher counts as lost.
func describeDeath(silent time.Duration) string {
	return fmt.Sprintf("the network to gorun is dead: nothing got through for %.1f s", silent.Seconds())
}
