package core

import (
	"errors"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/agent"
	"github.com/gorun/gorun/internal/net/wire"
)

// goWrong schedules a random fault or request.
func (w *world) goWrong() {
	at := w.upTo(16 * time.Second)
	h := w.hosts[w.dice.IntN(len(w.hosts))]
	r := w.ranks[w.dice.IntN(len(w.ranks))]
	switch w.dice.IntN(15) {
	case 0:
		w.until(at, func() { w.boss.end(137) })
	case 1:
		w.stopBoss(at, w.upTo(80*time.Second))
	case 2, 3:
		w.requestStop(at, StopReason(1+w.dice.IntN(3)))
	case 4:
		w.until(at, func() { w.boss.post(-1, Stop{Why: OutputClosed}) })
	case 5:
		w.until(at, h.kill)
	case 6:
		h.stopAgent(at, w.upTo(60*time.Second), w.oneIn(3))
	case 7:
		w.until(at, h.reset)
	case 8, 9:
		h.stall(at, w.dice.IntN(3), w.upTo(15*time.Second), w.oneIn(2))
	case 10:
		w.until(at, func() { r.end(0, syscall.SIGKILL) })
	case 11:
		w.until(at, func() { r.stopped = true })
		if w.oneIn(2) {
			w.until(at+w.upTo(20*time.Second), r.resume)
		}
	case 12:
		w.until(at, h.crash)
	case 14:
		w.until(at, h.killGuard)
	case 13:
		if w.oneIn(2) {
			w.until(at, func() {
				r.host.stuck = r.host.stuck || r.alive
				r.stuck = r.alive
			})
		} else {
			w.until(at, func() {
				if !w.boss.over {
					w.boss.toAll(wire.Signal{Number: int(syscall.SIGUSR1)})
				}
			})
		}
	}
}

// requestStop schedules one to three stop requests of the user.
func (w *world) requestStop(at time.Duration, why StopReason) {
	w.until(at, func() { w.boss.post(-1, Stop{Why: why}) })
	if w.oneIn(2) {
		at += w.upTo(3 * time.Second)
		w.until(at, func() { w.boss.post(-1, Stop{Why: why, Now: true}) })
	}
	if w.oneIn(3) {
		w.until(at+w.upTo(2*time.Second), func() {
			if !w.boss.stopped {
				w.boss.end(wire.SignalCode(syscall.SIGINT))
			}
		})
	}
}

// stopBoss stops the launcher for some time.
func (w *world) stopBoss(at, d time.Duration) {
	w.At(at, func() {
		w.Note("launcher: stopped")
		if !w.boss.stopped {
			w.boss.stopped = true
			w.boss.stoppedAt = w.Now
		}
	})
	w.until(at+d, func() {
		for _, h := range w.hosts {
			h.suspect = h.suspect || (w.boss.stopped && w.Now-w.boss.stoppedAt > agent.Lease-5*time.Second)
		}
		w.boss.resume()
	})
}

func (h *simHost) stopAgent(at, d time.Duration, forever bool) {
	w := h.w
	w.until(at, func() {
		w.Note("%s: the agent is stopped, for ever: %v", h.name, forever)
		h.stopped = true
		h.recovered = max(h.recovered, at+d)
		h.suspect = h.suspect || forever || d > HungTime-5*time.Second
	})
	if forever {
		h.forever = true
		return
	}
	w.until(at+d, func() {
		w.Note("%s: the agent is continued", h.name)
		h.resume()
	})
}

// killGuard ends the guard, which the agent notices.
func (h *simHost) killGuard() {
	if h.lives {
		h.w.Note("%s: the guard is killed", h.name)
		h.suspect = true
		h.do(&h.own, func() { h.agent.Failing(wire.Failing{GuardGone: true}, h.clock()) })
	}
}

// reset ends the connection on both sides.
func (h *simHost) reset() {
	if h.up.stalled || h.down.stalled {
		return
	}
	h.w.Note("%s: connection reset", h.name)
	h.suspect = true
	h.recovered = max(h.recovered, h.w.Now)
	h.up.send(hangUp{})
	h.down.send(hangUp{})
	h.up.last = h.w.Now + time.Hour
	h.down.last = h.w.Now + time.Hour // nothing follows
}

// stall delays one direction of the connection, or both. After netTime the launcher counts it as
// dead; the host learns that when it is reachable again.
func (h *simHost) stall(at time.Duration, which int, d time.Duration, forever bool) {
	w := h.w
	dead := false
	began := false
	over := at + d
	if forever {
		over += time.Hour
	}
	w.until(at, func() {
		if h.up.stalled || h.down.stalled || h.off {
			return
		}
		began = true
		w.Note("%s: stalled %d for %v, for ever: %v", h.name, which, d, forever)
		h.up.stalled = which != 0
		h.down.stalled = which != 1
		h.isolated = forever
		if !forever {
			h.recovered = max(h.recovered, at+d)
		}
		h.suspect = h.suspect || forever || d > netTime-time.Second
	})
	w.until(at+netTime+w.upTo(1500*time.Millisecond), func() {
		if began && w.Now < over && !w.boss.over {
			dead = true
			h.up.cut = true
			w.boss.post(h.index, HostLost{h.index, errors.New("connection timed out")})
			if which == 2 {
				h.parted()
			}
		}
	})
	if forever {
		return
	}
	w.until(at+d, func() {
		if !began {
			return
		}
		h.up.flow()
		h.down.flow()
		if dead {
			h.down.send(hangUp{})
		}
	})
}

// parted makes ranks notice that a host is unreachable.
func (h *simHost) parted() {
	if !h.w.ring {
		return
	}
	for _, here := range h.ranks {
		for _, there := range h.w.ranks {
			if there.host != h && here.alive && there.alive {
				h.w.After(h.w.upTo(100*time.Millisecond), func() { here.loses(there.rank, false) })
				h.w.After(h.w.upTo(100*time.Millisecond), func() { there.loses(here.rank, false) })
			}
		}
	}
}

// crash ends a machine.
func (h *simHost) crash() {
	w := h.w
	w.Note("%s: crashes", h.name)
	h.lives = false
	h.off = true
	h.suspect = true
	h.stuck = false
	h.up.cut = true
	h.down.cut = true
	w.until(w.Now+netTime+w.upTo(1500*time.Millisecond), func() {
		w.boss.post(h.index, HostLost{h.index, errors.New("connection timed out")})
	})
	if w.oneIn(2) {
		h.parted()
	}
	for _, r := range h.ranks {
		r.daemons = 0
		if r.alive {
			r.alive = false
			r.touched = true
			r.killed = syscall.SIGKILL
			r.endedAt = w.Now
		}
	}
}
