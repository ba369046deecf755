package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long a network may be dead before that is an error: five seconds, and one more try after them,
// which is up to a second later (rtoMax): so a network that was dead for less than five seconds is back in time.
const silence = 6 * time.Second

// minTries is how often the kernel must have tried in vain, by sending again or by
// looking whether a full receiver has room, before a network counts as dead: the
// silence may have begun while there was nothing to say.
const minTries = 3

// health is what the kernel knows of a connection that does not move.
type health struct {
	outstanding int           // segments that were sent and not acknowledged
	retries     int           // how often the first of them was sent again since the last acknowledgement
	probes      int           // unanswered looks whether the other end has room again
	lastHeard   time.Duration // since the last acknowledgement, of data or of a probe
}

// verdict returns an error when the network is dead. A receiver that is alive but
// does not read acknowledges every probe, for however long. TCP_USER_TIMEOUT does
// not make that difference.
func (h health) verdict() error {
	resent := h.outstanding > 0 && h.retries >= minTries
	if h.lastHeard >= silence && (resent || h.probes >= minTries) {
		return fmt.Errorf("no sign of life for %v: %w", h.lastHeard.Round(time.Second), unix.ETIMEDOUT)
	}
	return nil
}
