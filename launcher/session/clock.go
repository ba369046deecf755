package session

import "time"

// clockWindow is for how long a heartbeat counts. Clocks drift: by the hour it is enough to mistake the order of failures.
const clockWindow = time.Minute

// clock estimates how an agent's clock differs from ours. The fastest heartbeat of the last one or two windows is
// the best estimate: what it took is in it.
type clock struct {
	recent, before time.Duration // ours less the agent's, the least in the window and in the one before
	began          time.Duration // the window
	windows        int           // seen, with this one; at most 2 count
}

// heard notes that the agent's heartbeat of its time at came at our time now.
func (c *clock) heard(at, now time.Duration) {
	switch {
	case c.windows == 0:
		c.recent, c.began, c.windows = now-at, now, 1
	case now-c.began > clockWindow:
		c.before, c.recent, c.began, c.windows = c.recent, now-at, now, 2
	default:
		c.recent = min(c.recent, now-at)
	}
}

// Offset is what to add to the agent's clock to get ours.
func (c *clock) Offset() (time.Duration, bool) {
	if c.windows == 2 {
		return min(c.recent, c.before), true
	}
	return c.recent, c.windows > 0
}
