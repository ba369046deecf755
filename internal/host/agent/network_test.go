package agent

import (
	"testing"
	"time"
)

// playedLine is a connection that a test plays.
type playedLine struct {
	acked, received uint64
	heardAt         time.Duration
}

// playLine reads a connection for a minute; change returns its state at a time. It returns when the
// connection counted as dead, or 0.
func playLine(change func(l *playedLine, now time.Duration) lineReading) time.Duration {
	var n networkMonitor
	l := &playedLine{}
	for now := time.Duration(0); now < time.Minute; now += readPeriod {
		if n.dead(change(l, now), now) > 0 {
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
	beats := func(l *playedLine, now time.Duration) { // both ways, every second
		if now%time.Second == 0 {
			l.acked += 20
			l.received += 20
			l.heardAt = now
		}
	}
	silent := func(l *playedLine, now, since time.Duration) lineReading {
		r := lineReading{acked: l.acked, received: l.received, heard: now - l.heardAt}
		if sent := since + time.Second; now >= sent {
			r.unacked = 1
			r.retries = tries(now - sent)
		}
		return r
	}
	for _, tc := range []struct {
		name     string
		play     func(l *playedLine, now time.Duration) lineReading
		from, to time.Duration // when it is dead, after the cut; 0, 0: never
	}{
		{"nothing but heartbeats", func(l *playedLine, now time.Duration) lineReading {
			beats(l, now)
			return lineReading{acked: l.acked, received: l.received, heard: now - l.heardAt}
		}, 0, 0},
		{"cut both ways", func(l *playedLine, now time.Duration) lineReading {
			if now <= cut {
				beats(l, now)
			}
			return silent(l, now, min(now, cut))
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"the launcher hears nothing and repeats itself", func(l *playedLine, now time.Duration) lineReading {
			if now <= cut {
				beats(l, now)
			}
			l.heardAt = now // its repeated segments carry old acknowledgements
			return silent(l, now, min(now, cut))
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"the launcher is stopped: its kernel acknowledges", func(l *playedLine, now time.Duration) lineReading {
			if beats(l, now); now > cut {
				l.received = 200
			}
			return lineReading{acked: l.acked, received: l.received, heard: now - l.heardAt}
		}, 0, 0},
		{"the launcher is stopped, and its kernel has no room", func(l *playedLine, now time.Duration) lineReading {
			if now <= cut {
				beats(l, now)
			}
			return lineReading{
				acked:    l.acked,
				received: l.received,
				full:     now > cut,
				heard:    (now - cut) % (3 * time.Second),
			}
		}, 0, 0},
		{"no room, and then dead", func(l *playedLine, now time.Duration) lineReading {
			if now <= cut {
				beats(l, now)
			}
			return lineReading{
				acked:    l.acked,
				received: l.received,
				full:     now > 5*time.Second,
				probes:   tries(now - cut),
				heard:    max(0, now-cut),
			}
		}, 5500 * time.Millisecond, 6500 * time.Millisecond},
		{"a blip of 4.5 s, which the launcher's kernel ends", func(l *playedLine, now time.Duration) lineReading {
			if now <= cut || now > cut+5400*time.Millisecond {
				beats(l, now)
				return lineReading{acked: l.acked, received: l.received, heard: now - l.heardAt}
			}
			return silent(l, now, cut)
		}, 0, 0},
		{"silence with nothing to send", func(l *playedLine, now time.Duration) lineReading {
			return lineReading{acked: 7, received: 7, heard: now}
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
