package session

import (
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// Liveness is when a host was last heard of, and how its clock differs. It is safe for concurrent
// use, but for Offset.
type Liveness struct {
	mu    sync.Mutex
	heard time.Time // time of the last frame
	held  bool      // whether frames that came wait for the launcher
	clock
}

// Received records that a frame came, and a heartbeat's time if it was one.
func (l *Liveness) Received(f wire.Frame, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
	if f.Type != wire.TypeHeartbeat {
		return
	}
	if at, err := f.Heartbeat(); err == nil {
		l.beat(at, now)
	}
}

// ResetSilence makes Silence count from now.
func (l *Liveness) ResetSilence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
}

// Silence is the time since the last frame.
func (l *Liveness) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return 0
	}
	return time.Since(l.heard)
}

// hold records that frames which came wait for the launcher, which is no silence, until they go on.
func (l *Liveness) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = false
		l.heard = time.Now()
	}
}

// ToLauncher converts an agent's time to the launcher's.
func (l *Liveness) ToLauncher(at, now time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	offset, known := l.Offset()
	if !known {
		return now
	}
	return min(at+offset, now)
}

// clockWindow is how long a heartbeat counts. Within an hour clocks drift far enough to swap the
// order of failures.
const clockWindow = time.Minute

// clock estimates the offset between the launcher's clock and an agent's. The fastest heartbeat of
// the last one or two windows gives the best estimate, because the offset includes its delay.
type clock struct {
	recent, before time.Duration // smallest launcher time minus agent time, in this window and in the previous one
	began          time.Duration // start of the window
	windows        int           // number of windows seen, with the current one, at most 2
}

// beat records that a heartbeat sent at agent time at arrived at launcher time now.
func (c *clock) beat(at, now time.Duration) {
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
