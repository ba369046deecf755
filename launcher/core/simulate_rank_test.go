package core

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// simRank is a process that enters some fences, handles or ignores signals, and ends.
type simRank struct {
	host *simHost
	rank int

	alive, stopped bool
	stuck          bool // no signal ends it
	daemons        int  // processes that it leaves behind
	onTerm         int
	waits          string // the fence it is in
	pending        []func()
	zombieAt       time.Duration // it can be reaped from then on
	reaped         bool

	told    bool // to abort, so the cause of a later end is unknown
	touched bool // its end may be a consequence from now on
	left    bool // it has left its peers, and fails soon
	own     bool // it ends for the reason for which it left
	termed  bool // only because of the agent's SIGTERM, so a SIGKILL is still its own failure
	asked   bool // the agent's signal to end reached it while it ran
	origin  bool // it failed by itself
	code    int
	killed  syscall.Signal
	endedAt time.Duration // as its agent observed it
}

// What a rank does on SIGTERM.
const (
	dies = iota
	ignores
	cleansUp // and exits with 0
	fails    // and exits with 9
)

func newSimRank(h *simHost, rank int) *simRank {
	r := &simRank{host: h, rank: rank, alive: true}
	if w := h.w; !w.harmless {
		r.onTerm = w.dice.IntN(4)
		if w.oneIn(6) {
			r.daemons = 1
		}
	}
	return r
}

func (r *simRank) world() *world { return r.host.w }

// live schedules the rank's fences and its end.
func (r *simRank) live() {
	w := r.world()
	w.After(w.upTo(4*time.Second), func() { r.join(0) })
}

func (r *simRank) join(fence int) {
	w := r.world()
	r.soon(func() {
		if fence == w.fences || (!w.harmless && w.oneIn(40)) {
			w.until(w.Now+w.upTo(8*time.Second), r.finish)
			return
		}
		r.waits = fmt.Sprint("f", fence)
		r.host.join(r, r.waits)
	})
}

// fenced releases the rank from a fence.
func (r *simRank) fenced(name string) {
	if r.waits != name {
		return
	}
	w := r.world()
	r.waits = ""
	w.After(w.upTo(time.Second), func() { r.join(int(name[1]-'0') + 1) })
}

// finish ends the rank as chosen by the dice.
func (r *simRank) finish() {
	w := r.world()
	n := 99
	if !w.harmless {
		n = w.dice.IntN(100)
	}
	switch {
	case n < 6:
		if w.ring && w.oneIn(2) {
			r.leave()
			return
		}
		r.exit(1 + w.dice.IntN(255))
	case n < 9:
		r.soon(func() { r.end(0, []syscall.Signal{syscall.SIGSEGV, syscall.SIGKILL, syscall.SIGABRT}[w.dice.IntN(3)]) })
	case n < 11: // it runs for ever
	default:
		r.exit(0)
	}
}

func (r *simRank) exit(code int) { r.soon(func() { r.end(code, 0) }) }

// soon runs a function of the rank, or queues it while the rank is stopped.
func (r *simRank) soon(do func()) {
	switch {
	case !r.alive || r.stuck:
	case r.stopped:
		r.pending = append(r.pending, do)
	default:
		do()
	}
}

// end ends the process. Its agent notices soon, and then drains its output.
func (r *simRank) end(code int, signal syscall.Signal) {
	if !r.alive {
		return
	}
	w := r.world()
	h := r.host
	r.alive = false
	r.code = code
	r.killed = signal
	r.endedAt = w.Now
	r.origin = (code != 0 || signal != 0) && (r.own || !r.touched || r.termed && signal == syscall.SIGKILL)
	w.Note("rank %d on %s ends: code %d signal %d origin %v", r.rank, h.name, code, signal, r.origin)
	zombie := w.upTo(5 * time.Millisecond) // its connections close before
	if w.oneIn(5) {
		zombie = w.upTo(200 * time.Millisecond)
	}
	r.zombieAt = w.Now + zombie
	late := 2 * time.Millisecond
	if w.oneIn(5) { // a SIGCHLD is missed
		late = time.Second
	}
	w.After(zombie+w.upTo(late), func() { h.do(&h.own, r.reap) })
	if w.ring && (code != 0 || signal != 0) {
		for _, other := range w.ranks {
			if other != r && other.alive {
				w.After(w.upTo(50*time.Millisecond), func() { other.loses(r.rank, false) })
			}
		}
	}
}

// reap makes the agent reap the process, if it has ended.
func (r *simRank) reap() {
	if r.alive || r.reaped || r.world().Now < r.zombieAt {
		return
	}
	w := r.world()
	h := r.host
	r.reaped = true
	r.endedAt = w.Now
	h.agent.Exited(r.rank, r.code, int(r.killed), !r.asked, h.clock())
	open := w.upTo(5 * time.Millisecond)
	if r.daemons > 0 { // it holds the pipes
		open = drainTime
	}
	for range 2 {
		w.After(open, func() { h.do(&h.own, func() { h.agent.Drained(r.rank, h.clock()) }) })
	}
}

// leave makes the rank leave its peers, as an interpreter with an uncaught exception does, and end
// a little later.
func (r *simRank) leave() {
	w := r.world()
	r.soon(func() {
		if r.touched {
			r.exit(1)
			return
		}
		w.Note("rank %d leaves", r.rank)
		r.left = true
		for _, other := range w.ranks {
			if other != r && other.alive {
				w.After(w.upTo(50*time.Millisecond), func() { other.loses(r.rank, true) })
			}
		}
		w.After(w.upTo(1500*time.Millisecond), func() {
			r.soon(func() {
				r.own = true
				r.end(1+w.dice.IntN(255), 0)
			})
		})
	})
}

// loses makes the rank report the loss of another, and exit. left is how it was lost.
func (r *simRank) loses(other int, left bool) {
	if r.left { // it ends anyhow
		return
	}
	r.soon(func() {
		w := r.world()
		h := r.host
		r.touched = true
		r.termed = false
		h.do(&h.own, func() {
			h.up.send(wire.Lost{
				By:    r.rank,
				Rank:  other,
				Cause: "reset",
				Left:  left,
			})
			w.After(w.upTo(20*time.Millisecond), func() { r.exit(1) }) // after the agent's answer
		})
	})
}

// abort tells the rank to abort.
func (r *simRank) abort() {
	if !r.alive {
		return
	}
	r.told = true
	w := r.world()
	if !r.left && (w.ring || r.waits != "") {
		r.touched = true
		r.termed = false
		w.After(w.upTo(50*time.Millisecond), func() { r.exit(1) })
	}
}

func (r *simRank) kill() {
	r.asked = r.asked || r.alive
	if !r.stuck && r.alive {
		r.touched = true
		r.termed = false
		r.end(0, syscall.SIGKILL)
	}
}

// signal delivers a signal of the agent.
func (r *simRank) signal(signal syscall.Signal) {
	switch signal {
	case syscall.SIGTERM:
		r.asked = r.asked || r.alive
		r.termed = r.termed || !r.touched
		r.touched = true
		r.soon(r.term)
	case syscall.SIGCONT:
		r.resume()
	default:
		r.soon(func() { r.end(0, signal) })
	}
}

func (r *simRank) term() {
	w := r.world()
	switch r.onTerm {
	case dies:
		r.end(0, syscall.SIGTERM)
	case cleansUp:
		w.After(w.upTo(3*time.Second), func() { r.exit(0) })
	case fails:
		w.After(w.upTo(3*time.Second), func() { r.exit(9) })
	}
}

func (r *simRank) resume() {
	pending := r.pending
	r.stopped = false
	r.pending = nil
	for _, do := range pending {
		r.soon(do)
	}
}
