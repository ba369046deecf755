package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/simulate"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// world is one whole job on a clock of its own: the launcher's core, the agents' cores, ranks,
// connections, a user and faults. All randomness comes from its dice, so equal dice make equal
// jobs.
type world struct {
	simulate.Clock
	dice *rand.Rand

	plan     plan.Plan
	grace    time.Duration
	ring     bool // ranks notice the loss of each other, and exit when told to abort
	fences   int
	boss     *boss
	hosts    []*simHost
	ranks    []*simRank
	trouble  time.Duration // when the last fault is over
	harmless bool          // nothing goes wrong
}

// newWorld makes up a job and its faults.
func newWorld(d *rand.Rand, tell bool) *world {
	w := &world{Clock: simulate.Clock{Tell: tell}, dice: d}
	hosts := make([]hostfile.Host, 1+d.IntN(4))
	for i := range hosts {
		hosts[i] = hostfile.Host{Name: fmt.Sprint("h", i), Slots: 1 + d.IntN(3)}
	}
	var err error
	if w.plan, err = plan.New(hosts, plan.Request{}); err != nil {
		panic(err)
	}
	w.grace = w.upTo(8 * time.Second)
	w.ring = w.oneIn(2)
	w.fences = d.IntN(3)
	w.harmless = w.oneIn(8)
	for i := range w.plan.Hosts {
		w.hosts = append(w.hosts, newSimHost(w, &w.plan.Hosts[i], i))
	}
	w.boss = newBoss(w)
	for _, r := range w.ranks {
		r.live()
	}
	// A time limit ends a job that would run for ever.
	w.until(40*time.Second, func() { w.boss.post(-1, Stop{Why: TimedOut}) })
	if !w.harmless {
		for range 1 + d.IntN(4) {
			w.goWrong()
		}
	}
	return w
}

func (w *world) oneIn(n int) bool { return w.dice.IntN(n) == 0 }

// upTo returns a random duration from 0 to most.
func (w *world) upTo(most time.Duration) time.Duration {
	return time.Duration(w.dice.IntN(int(most/time.Microsecond)+1)) * time.Microsecond
}

// until is At for an event that may delay the end of the job.
func (w *world) until(t time.Duration, do func()) {
	w.trouble = max(w.trouble, t)
	w.At(t, do)
}

// run plays the job until its last process has ended.
func (w *world) run() error {
	bound := w.trouble + HungTime + 4*session.BeatTime + w.grace + StopMargin + 2*TickTime
	for w.Fault == nil && w.Next() {
		if !w.boss.over && w.Now > bound {
			return fmt.Errorf("not over at %v, bound %v", w.Now, bound)
		}
		if w.boss.over && w.clean() {
			break
		}
	}
	if w.Fault == nil && !w.boss.over {
		return errors.New("nothing more happens, and it is not over")
	}
	if w.Fault == nil {
		w.Fault = w.verdict()
	}
	return w.Fault
}

// clean reports whether no process is left except those that cannot be killed, and checks when the
// last must have ended.
func (w *world) clean() bool {
	clean := true
	for _, h := range w.hosts {
		if !h.anybody() {
			continue
		}
		due, ever := h.cleanBy()
		if ever {
			clean = false
		}
		if ever && w.Now > due {
			w.Broken("%s has processes at %v, and should have none since %v", h.name, w.Now, due)
		}
	}
	return clean
}

// pipe carries messages in one direction, in order.
type pipe struct {
	w       *world
	delay   time.Duration // minimum
	last    time.Duration // when the latest message comes
	stalled bool
	cut     bool
	held    []any
	deliver func(message any)
}

// hangUp is the end of a stream.
type hangUp struct{}

func (p *pipe) send(message any) {
	p.last = max(p.last, p.w.Now+p.delay+p.w.upTo(3*time.Millisecond))
	p.w.At(p.last, func() { p.arrive(message) })
}

func (p *pipe) arrive(message any) {
	switch {
	case p.cut:
	case p.stalled:
		p.held = append(p.held, message)
	default:
		_, p.cut = message.(hangUp)
		p.deliver(message)
	}
}

// flow ends a stall.
func (p *pipe) flow() {
	held := p.held
	p.stalled = false
	p.held = nil
	for _, message := range held {
		p.arrive(message)
	}
}

// beatMessage is a heartbeat, with the sender's clock.
type beatMessage struct{ at time.Duration }

// doneMessage is an agent's last message.
type doneMessage struct{}
