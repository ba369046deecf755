package core

import (
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/agent"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

const (
	lostGrace = 5 * time.Second // the agent's own
	guardTime = lostGrace + 2*time.Second
	drainTime = 2 * time.Second
	netTime   = 5 * time.Second // after which a connection that answers nothing is dead
)

// simHost is a host with its guard, its agent and their ranks.
type simHost struct {
	w        *world
	name     string
	index    int
	began    time.Duration // the agent's clock is behind by that
	up, down *pipe
	agent    *agent.Machine
	ranks    []*simRank
	gather   *kv.Fences
	exited   []int
	killFrom time.Duration // the agent kills its ranks no sooner

	lives, stopped bool // the agent
	off            bool // the machine
	gone           bool // the agent has abandoned the launcher
	finishing      bool
	frames, own    []func() // queued while the agent is stopped
	nextTick       time.Duration

	isolated  bool          // cut off from the launcher in both directions, or one
	hungUp    bool          // the stream from the launcher has ended
	suspect   bool          // its loss is justified
	recovered time.Duration // when its last fault is over
	stuck     bool          // a rank cannot be killed
	forever   bool          // the agent is stopped for good
}

func newSimHost(w *world, p *plan.Host, index int) *simHost {
	h := &simHost{
		w:        w,
		name:     p.Name,
		index:    index,
		began:    w.upTo(time.Second) - 500*time.Millisecond,
		lives:    true,
		gather:   kv.NewFences(len(p.Ranks)),
		killFrom: math.MaxInt64,
	}
	h.up = &pipe{w: w, delay: w.upTo(100 * time.Millisecond), deliver: func(m any) { w.boss.post(index, m) }}
	h.down = &pipe{w: w, delay: w.upTo(100 * time.Millisecond), deliver: h.frame}
	var ranks []int
	for _, planned := range p.Ranks {
		r := newSimRank(h, planned.Rank)
		h.ranks = append(h.ranks, r)
		w.ranks = append(w.ranks, r)
		ranks = append(ranks, r.rank)
	}
	h.agent = agent.NewMachine(w.grace, ranks, h, h.clock())
	h.look()
	h.beat()
	return h
}

// clock returns the agent's time.
func (h *simHost) clock() time.Duration { return h.w.Now - h.began }

func (h *simHost) beat() {
	if !h.lives {
		return
	}
	if !h.stopped {
		h.up.send(beatMessage{h.clock()})
	}
	h.w.After(session.BeatTime, h.beat)
}

// look schedules the agent's next tick.
func (h *simHost) look() {
	at := h.w.Now + h.agent.Wait(h.clock())
	if h.nextTick > h.w.Now && h.nextTick <= at {
		return
	}
	h.nextTick = at
	h.w.At(at, func() {
		if h.nextTick == at && h.lives && !h.stopped && !h.finishing {
			h.agent.Tick(h.clock())
			h.look()
		}
	})
}

// do runs a function of the agent, or queues it while the agent is stopped.
func (h *simHost) do(pending *[]func(), what func()) {
	switch {
	case !h.lives || h.finishing:
	case h.stopped:
		*pending = append(*pending, what)
	default:
		what()
		if h.lives && !h.finishing {
			h.look()
		}
	}
}

// frame delivers a message of the launcher.
func (h *simHost) frame(message any) {
	if _, ended := message.(hangUp); ended {
		h.hungUp = true
		h.w.After(guardTime, h.kill) // the guard
	}
	h.do(&h.frames, func() {
		switch message := message.(type) {
		case hangUp:
			h.agent.Lost(h.clock())
		case wire.Stop:
			if h.w.oneIn(2) { // ranks end before the signal
				h.reap()
			}
			h.killFrom = min(h.killFrom, h.w.Now+message.Grace)
			h.agent.Frame(message, h.clock())
		case wire.Abort:
			h.reap()
			h.agent.Aborted(h.ending(), h.clock())
			h.abort()
		case wire.Fence:
			h.agent.Frame(message, h.clock())
			for _, r := range h.ranks {
				r.fenced(message.Name)
			}
		default:
			h.agent.Frame(message, h.clock())
		}
	})
}

func (h *simHost) reap() {
	for _, r := range h.ranks {
		r.reap()
	}
}

// ending returns the ranks whose processes have ended and cannot be reaped yet.
func (h *simHost) ending() []int {
	var ranks []int
	for _, r := range h.ranks {
		if !r.alive && !r.reaped {
			ranks = append(ranks, r.rank)
		}
	}
	return ranks
}

func (h *simHost) abort() {
	for _, r := range h.ranks {
		r.abort()
	}
}

// These methods perform the agent's actions.

func (h *simHost) Signal(rank int, signal syscall.Signal) {
	h.w.Note("%s: signal %d to rank %d", h.name, signal, rank)
	if h.finishing {
		h.w.Broken("%s: a signal after the end", h.name)
	}
	for _, r := range h.ranks {
		if r.rank == rank {
			r.signal(signal)
		}
	}
}

func (h *simHost) KillTree() {
	if h.lives && !h.finishing && h.w.Now < h.killFrom {
		h.w.Broken("%s: killed at %v, due %v", h.name, h.w.Now, h.killFrom)
	}
	for _, r := range h.ranks {
		r.daemons = 0
		r.kill()
	}
}

func (h *simHost) Report(e wire.Exit) {
	h.w.Note("%s: reports %+v", h.name, e)
	if slices.Contains(h.exited, e.Rank) {
		h.w.Broken("%s: rank %d is reported twice", h.name, e.Rank)
	}
	h.exited = append(h.exited, e.Rank)
	h.gather.End(e.Rank)
	if !h.gone {
		h.up.send(e)
	}
	h.checkFences()
}

func (h *simHost) Fail(f wire.Failing) { h.up.send(f) }

func (h *simHost) Abandon() {
	h.killFrom = min(h.killFrom, h.w.Now+min(h.w.grace, lostGrace))
	h.gone = true
	h.abort()
}

func (h *simHost) Finish() {
	if h.finishing {
		h.w.Broken("%s: a second end", h.name)
	}
	h.finishing = true
	h.w.After(h.w.upTo(20*time.Millisecond), func() {
		if !h.lives {
			return
		}
		h.KillTree()
		if !h.stuck && !h.gone {
			h.up.send(doneMessage{})
		}
		h.end()
	})
}

// end ends the agent and its guard.
func (h *simHost) end() {
	h.lives = false
	h.up.send(hangUp{})
}

// kill ends the agent at once; its guard ends the ranks.
func (h *simHost) kill() {
	if !h.lives {
		return
	}
	h.w.Note("%s: the agent is killed", h.name)
	h.suspect = true
	h.end()
	h.w.After(h.w.upTo(5*time.Millisecond), h.KillTree)
}

// resume continues the agent, which gets the messages of launcher and ranks in any order.
func (h *simHost) resume() {
	if !h.stopped {
		return
	}
	h.stopped = false
	frames := h.frames
	own := h.own
	h.frames = nil
	h.own = nil
	for len(frames)+len(own) > 0 {
		from := &frames
		if len(frames) == 0 || (len(own) > 0 && h.w.oneIn(2)) {
			from = &own
		}
		h.do(nil, (*from)[0])
		*from = (*from)[1:]
	}
	h.do(nil, func() { h.agent.Tick(h.clock()) })
}

// join brings a rank to a fence.
func (h *simHost) join(r *simRank, name string) {
	h.do(&h.own, func() {
		all, err := h.gather.Add(name, map[int][]byte{r.rank: nil})
		if err != nil {
			h.w.Broken("%s: %v", h.name, err)
		}
		if all != nil {
			h.up.send(wire.Fence{Name: name, Values: all})
		}
		h.checkFences()
	})
}

func (h *simHost) checkFences() {
	if name, rank, waiter, stuck := h.gather.Stuck(); stuck {
		h.up.send(wire.EndedBefore(name, 0, rank, waiter))
	}
}

// anybody reports whether a process is left.
func (h *simHost) anybody() bool {
	for _, r := range h.ranks {
		if r.alive || r.daemons > 0 {
			return true
		}
	}
	return h.lives && !h.off
}

// cleanBy returns when the last process must have ended after the launcher's end. ever is false if
// that is not promised.
func (h *simHost) cleanBy() (due time.Duration, ever bool) {
	from := max(h.w.boss.overAt, h.recovered)
	switch {
	case h.stuck, h.forever && h.isolated && !h.hungUp:
		return 0, false
	case h.isolated:
		return from + agent.Lease + lostGrace + 3*time.Second, true
	}
	return from + guardTime + time.Second, true
}
