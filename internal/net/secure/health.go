package secure

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Silence is how long a network may be dead before that is an error: five seconds plus the
// longest interval between retries (a second), so that a shorter outage is no error.
const Silence = 6 * time.Second

// minTries is how many retransmissions or probes of a full receiver must fail before a
// network counts as dead: the silence may include time without data to send.
const minTries = 3

// health is the kernel's state of a stalled connection.
type health struct {
	outstanding int           // unacknowledged segments
	retries     int           // retransmissions of the first segment since the last acknowledgement
	probes      int           // unanswered probes of a full receiver
	lastHeard   time.Duration // time since the last acknowledgement of data or of a probe
}

// stallTime and stallTries are when a network seems dead: after the second retransmission, some 0.6
// s after the first loss.
const (
	stallTime  = 500 * time.Millisecond
	stallTries = 2
)

// stalled reports whether the network seems dead.
func (h health) stalled() bool {
	resent := h.outstanding > 0 && h.retries >= stallTries
	return h.lastHeard >= stallTime && (resent || h.probes >= stallTries)
}

// verdict returns an error when the network is dead. A live receiver that does not read
// acknowledges every probe; TCP_USER_TIMEOUT would end its connection too.
func (h health) verdict() error {
	resent := h.outstanding > 0 && h.retries >= minTries
	if h.lastHeard >= Silence && (resent || h.probes >= minTries) {
		return fmt.Errorf("no sign of life for %v: %w", h.lastHeard.Round(time.Second), unix.ETIMEDOUT)
	}
	return nil
}
