package session

import "time"

// clockWindow is for how long a heartbeat counts. Clocks drift: by the hour it is enough to mistake
// the order of failures.
const clockWindow = time.Minute

// clock estimates the offset between the launcher's clock and an agent's. The fastest heartbeat of
// the last one or two windows gives the best estimate, because the offset includes its delay.
type clock struct {
	recent, before time.Duration // smallest launcher time minus agent time, in this window and in the previous one
	began          time.Duration // the window
	windows        int           // seen, with this one; at most 2 count
}

// heard records that a heartbeat sent at agent time at arrived at launcher time now.
func (c *clock) heard(at, now time.Duration) {
	switch {
	case c.windows == 0:
		c.recent = now - at
		c.began = now
		c.windows = 1
	case now-c.began > clockWindow:
		c.before = c.recent
		c.recent = now - at
		c.began = now
		c.windows = 2
	default:
		c.recent = min(c.recent, now-at)
	}
}

// Offset returns the duration to add to the agent's time to get the launcher's.
func (c *clock) Offset() (time.Duration, bool) {
	if c.windows == 2 {
		return min(c.recent, c.before), true
	}
	return c.recent, c.windows > 0
}
