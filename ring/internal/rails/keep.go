package rails

import (
	"context"
	"slices"
	"time"
)

const (
	busyInterval = 100 * time.Millisecond
	idleInterval = 400 * time.Millisecond // less than a dead network takes to show
	minPause     = 20 * time.Millisecond  // between attempts to dial
	maxPause     = time.Second
	dialTimeout  = 2 * time.Second
)

// keep looks after the lanes until the stream ends, also while its user does something else: it
// finds dead ones, sends their data on others, and dials those that are missing.
func (s *Stream) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-timer.C:
		}
		timer.Reset(s.look())
	}
}

// look looks at all lanes once, and returns when to do it again.
func (s *Stream) look() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken || s.failed != nil {
		return time.Hour
	}
	s.closeDead()
	before := s.progress()
	s.suspectLanes()
	s.conclude(time.Now())
	s.acknowledge(1)
	s.pump()
	if s.waiting && (s.progress() != before || s.blocking(!s.out.blocked.IsZero())) {
		s.signal()
	}
	s.redial()
	if s.out.window.acked < s.out.window.end || s.in.next != s.in.acked || !s.hungUp.IsZero() {
		return busyInterval
	}
	return idleInterval
}

// progress is what a user of the stream waits for, and which sockets the wait must watch.
type progress struct {
	acked, cut uint64
	reordered  uint64
	lanes      int
	pending    int // bytes that lanes were given and have not sent
}

func (s *Stream) progress() progress {
	p := progress{
		acked:     s.out.window.acked,
		cut:       s.out.window.cut,
		reordered: s.in.reorder.came,
		lanes:     len(s.lanes),
	}
	for _, l := range s.lanes {
		p.pending += l.pending()
	}
	return p
}

// suspectLanes finds lanes whose networks seem dead. Their data goes to others, but they stay: they
// may come back.
func (s *Stream) suspectLanes() {
	fresh := false
	for _, l := range s.lanes {
		was := l.suspect
		l.suspect, l.trip = l.conn.Look()
		fresh = fresh || l.suspect && !was
		if was && !l.suspect {
			l.meter = meter{} // the silence was measured
		}
	}
	if !s.healthy() {
		return
	}
	for _, l := range s.lanes {
		if l.suspect && (fresh || len(l.flight) > 0) {
			s.lose(l)
		}
	}
}

// redial dials over the rails without a lane that works.
func (s *Stream) redial() {
	if s.cfg.Dial == nil || len(s.lanes) == 0 {
		return
	}
	for rail := range s.cfg.Rails {
		if !s.dialing[rail] && !s.served(rail) {
			s.dialing[rail] = true
			s.running.Go(func() { s.dial(rail) })
		}
	}
}

// served reports whether a lane over a rail works.
func (s *Stream) served(rail int) bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.rail == rail && !l.suspect })
}

// dial makes a lane over a rail. It tries until it succeeds, the rail has a lane that works again,
// or the stream ends.
func (s *Stream) dial(rail int) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		ctx, cancel := context.WithTimeout(s.life, dialTimeout)
		conn, err := s.cfg.Dial(ctx, rail)
		cancel()
		if err == nil && !s.Add(1+rail, conn) {
			conn.Close()
		}
		if s.dialed(rail, err == nil) {
			return
		}
		select {
		case <-s.life.Done():
			return
		case <-time.After(pause):
		}
	}
}

// dialed reports whether dialing is over after an attempt.
func (s *Stream) dialed(rail int, made bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing[rail] = !made && !s.woken && len(s.lanes) > 0 && !s.served(rail)
	if !s.open() {
		s.signal() // this was the last hope
	}
	return !s.dialing[rail]
}
