package link

import (
	"testing"
	"time"
)

// line is a connection that a test plays.
type line struct {
	acked, received uint64
	heardAt         time.Duration
}

// playLine reads a connection for a minute; change returns its state at a time. It returns when the
// connection counted as dead, or 0.
func playLine(change func(l *line, now time.Duration) Reading) time.Duration {
	var n Monitor
	l := &line{}
	for now := time.Duration(0); now < time.Minute; now += Period {
		if n.Dead(change(l, now), now) > 0 {
			return now
		}
	}
	return 0
}

// tries is how often a kernel has sent again after so long.
func tries(d time.Duration) (n int) {
	for next := 200 * time.Millisecond; d >= next; next = 2*next + 200*time.Millisecond {
		n++
	}
	return n
}

func TestNetwork(t *testing.T) {
	const cut = 10 * time.Second
	beats := func(l *line, now time.Duration) { // both ways, every second
		if now%time.Second == 0 {
			l.acked += 20
			l.received += 20
			l.heardAt = now
		}
	}
	silent := func(l *line, now, since time.Duration) Reading {
		r := Reading{Acked: l.acked, Received: l.received, Heard: now - l.heardAt}
		if sent := since + time.Second; now >= sent {
			r.Unacked = 1
			r.Retries = tries(now - sent)
		}
		return r
	}
	for _, tc := range []struct {
		name     string
		play     func(l *line, now time.Duration) Reading
		from, to time.Duration // when it is dead, after the cut; 0, 0: never
	}{
		{"nothing but heartbeats", func(l *line, now time.Duration) Reading {
			beats(l, now)
			return Reading{Acked: l.acked, Received: l.received, Heard: now - l.heardAt}
		}, 0, 0},
		{"cut both ways", func(l *line, now time.Duration) Reading {
			if now <= cut {
				beats(l, now)
			}
			return silent(l, now, min(now, cut))
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"the launcher hears nothing and repeats itself", func(l *line, now time.Duration) Reading {
			if now <= cut {
				beats(l, now)
			}
			l.heardAt = now // what it repeats carries old acknowledgements
			return silent(l, now, min(now, cut))
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"the launcher is stopped: its kernel acknowledges", func(l *line, now time.Duration) Reading {
			if beats(l, now); now > cut {
				l.received = 200
			}
			return Reading{Acked: l.acked, Received: l.received, Heard: now - l.heardAt}
		}, 0, 0},
		{"the launcher is stopped, and its kernel has no more room", func(l *line, now time.Duration) Reading {
			if now <= cut {
				beats(l, now)
			}
			return Reading{
				Acked:    l.acked,
				Received: l.received,
				Full:     now > cut,
				Heard:    (now - cut) % (3 * time.Second),
			}
		}, 0, 0},
		{"no room, and then dead", func(l *line, now time.Duration) Reading {
			if now <= cut {
				beats(l, now)
			}
			return Reading{
				Acked:    l.acked,
				Received: l.received,
				Full:     now > 5*time.Second,
				Probes:   tries(now - cut),
				Heard:    max(0, now-cut),
			}
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"a blip of 4.5 s, which the launcher's kernel ends", func(l *line, now time.Duration) Reading {
			if now <= cut || now > cut+5400*time.Millisecond {
				beats(l, now)
				return Reading{Acked: l.acked, Received: l.received, Heard: now - l.heardAt}
			}
			return silent(l, now, cut)
		}, 0, 0},
		{"silence with nothing to send", func(l *line, now time.Duration) Reading {
			return Reading{Acked: 7, Received: 7, Heard: now}
		}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := playLine(tc.play)
			switch {
			case tc.to == 0 && got != 0:
				t.Errorf("dead at %v", got)
			case tc.to != 0 && (got < cut+tc.from || got > cut+tc.to):
				t.Errorf("dead at %v, cut at %v", got, cut)
			}
		})
	}
}
