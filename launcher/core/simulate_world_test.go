package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/simulate"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// A world is one whole job on a clock of its own: the launcher's core, the cores of
// the agents, ranks, the connections between them, a user, and what goes wrong.
// All that is left to chance comes from its dice, so the same dice make the same job.
type world struct {
	simulate.Clock
	dice dice

	plan     plan.Plan
	grace    time.Duration
	ring     bool // ranks notice the loss of each other, and exit when told to abort
	fences   int
	boss     *boss
	hosts    []*simHost
	ranks    []*simRank
	trouble  time.Duration // when the last thing is over that may hold up the end
	harmless bool          // nothing goes wrong
}

// dice are where chance comes from: a seed, or a fuzzer's bytes.
type dice interface{ IntN(n int) int }

// byteDice end with zeros.
type byteDice []byte

func (d *byteDice) IntN(n int) int {
	v := 0
	for m := n - 1; m > 0 && len(*d) > 0; m >>= 8 {
		v, *d = v<<8|int((*d)[0]), (*d)[1:]
	}
	return v % n
}

// newWorld makes up a job and what happens to it.
func newWorld(d dice, tell bool) *world {
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
	// Somebody loses patience with a job that nothing ends.
	w.until(40*time.Second, func() { w.boss.post(-1, Stop{Why: TimedOut}) })
	if !w.harmless {
		for range 1 + d.IntN(4) {
			w.goWrong()
		}
	}
	return w
}

func (w *world) oneIn(n int) bool { return w.dice.IntN(n) == 0 }

// upTo is any time from 0 to most.
func (w *world) upTo(most time.Duration) time.Duration {
	return time.Duration(w.dice.IntN(int(most/time.Microsecond)+1)) * time.Microsecond
}

// until is at, for what the end of the job may wait for.
func (w *world) until(t time.Duration, do func()) {
	w.trouble = max(w.trouble, t)
	w.At(t, do)
}

// run plays the job to its end, and on until nothing of it is left.
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

// clean reports that no process of the job is left, but for those that cannot be
// killed. Where there is one, it must not be there too long.
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

// pipe carries messages one way in their order.
type pipe struct {
	w       *world
	delay   time.Duration // least
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
	p.stalled, p.held = false, nil
	for _, message := range held {
		p.arrive(message)
	}
}

// beatMessage is a heartbeat, with the sender's clock.
type beatMessage struct{ at time.Duration }

// doneMessage is an agent's last word.
type doneMessage struct{}
