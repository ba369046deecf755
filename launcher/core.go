package launcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/wire"
)

// The core is the pure state machine of a job with fixed ranks: events in, actions
// out. run.go acts. Time is a value on the launcher's monotonic clock.

// stopMargin is how long after the grace the launcher waits for the agents' last reports.
const stopMargin = 3 * time.Second

type (
	eventExit struct { // a rank ended
		host int
		exit Exit // At is launcher time
	}
	eventLost struct{ lost wire.Lost } // a rank lost its connection to another
	eventDone struct {                 // every rank of a host has ended and is swept up
		host int
		left []Unkillable // that cannot be killed
	}
	eventHostLost struct { // a host or its agent is lost
		host int
		err  error
	}
	eventFailing struct { // an agent reports that it ends its ranks and itself
		host int
		err  error
	}
	eventStop struct { // the user, or a time limit, wants the end
		why StopReason
		now bool // no grace
	}
	eventAbort struct{ abort wire.Abort }    // ranks cannot go on together, though none has failed
	eventWoke  struct{ still time.Duration } // the launcher itself was suspended for so long: frames that came meanwhile are unread
	eventTick  struct{}
)

type (
	actStop  struct{ grace time.Duration } // to every host
	actAbort struct{ abort wire.Abort }    // to every host's ranks
)

// StopReason is why a job was ended from outside. The zero value: it was not.
type StopReason int

// Reasons to stop a job.
const (
	NotStopped StopReason = iota
	Interrupted
	Terminated
	HungUp
	TimedOut
	OutputClosed
)

type hostState struct {
	name string
	done bool
	left []Unkillable // cannot be killed
	lost error
	ends bool // its agent is lost, and has not ended yet
	at   time.Duration
}

// core is the state of one job from the start of its ranks.
type core struct {
	grace    time.Duration
	hosts    []hostState
	hostOf   func(rank int) string
	exits    []Exit
	victims  map[int]int // rank that was lost, by the rank that reported it before it ended itself
	gaveUp   int         // rank that requested the abort, or -1
	aborted  bool
	told     string // cause of the abort
	reason   StopReason
	stopping bool
	giveUpAt time.Duration
	finished bool
}

func newCore(plan Plan, grace time.Duration) *core {
	c := &core{grace: grace, victims: map[int]int{}, gaveUp: -1, hostOf: func(rank int) string {
		if h := plan.Host(rank); h != nil {
			return h.Name
		}
		return ""
	}}
	for _, h := range plan.Hosts {
		c.hosts = append(c.hosts, hostState{name: h.Name})
	}
	return c
}

// step handles one event at time now and returns the actions in order.
func (c *core) step(event any, now time.Duration) []any {
	if c.finished {
		return nil
	}
	var acts []any
	switch e := event.(type) {
	case eventExit:
		acts = c.exited(e, now)
	case eventLost:
		acts = c.lost(e.lost)
	case eventAbort:
		acts = c.abort(e.abort)
	case eventDone:
		c.hosts[e.host].done, c.hosts[e.host].left = true, e.left
	case eventHostLost:
		acts = c.gone(e, now)
	case eventFailing:
		acts = c.failing(e, now)
	case eventStop:
		if c.reason == NotStopped && !c.stopping {
			c.reason = e.why
		}
		grace := c.grace
		if e.now {
			grace = 0
		}
		acts = c.stop(grace, now)
	case eventWoke:
		c.giveUpAt = max(c.giveUpAt+e.still, now+coreTick)
		return nil // the next event checks whether the job is over
	case eventTick:
	}
	if c.over(now) {
		c.finished = true
	}
	return acts
}

func (c *core) exited(e eventExit, now time.Duration) []any {
	c.exits = append(c.exits, e.exit)
	if !e.exit.failed() || e.exit.Stopped {
		return nil
	}
	acts := c.abort(wire.Abort{Rank: e.exit.Rank, Host: c.hosts[e.host].name, Cause: describe(e.exit)})
	return append(acts, c.stop(c.grace, now)...)
}

func (c *core) gone(e eventHostLost, now time.Duration) []any {
	h := &c.hosts[e.host]
	if c.settled(e.host) {
		return nil
	}
	if h.lost != nil { // the agent has reported the cause before
		h.ends = false
		return nil
	}
	return c.lose(e.host, e.err, now)
}

// failing handles an agent's report that it is about to end. Its ranks run until it has ended.
func (c *core) failing(e eventFailing, now time.Duration) []any {
	if c.settled(e.host) || c.hosts[e.host].lost != nil {
		return nil
	}
	c.hosts[e.host].ends = true
	return c.lose(e.host, e.err, now)
}

func (c *core) lose(host int, err error, now time.Duration) []any {
	h := &c.hosts[host]
	h.lost, h.at = err, now
	acts := c.abort(wire.Abort{Rank: -1, Host: h.name, Cause: err.Error()})
	return append(acts, c.stop(c.grace, now)...)
}

// lost aborts the job because a connection between two ranks was lost. A rank that
// names itself requests the abort, and is not a victim.
func (c *core) lost(l wire.Lost) []any {
	cause := l.Cause
	switch {
	case l.By != l.Rank:
		c.victims[l.By] = l.Rank
		cause = fmt.Sprintf("rank %d lost it: %s", l.By, l.Cause)
	case !c.aborted:
		c.gaveUp = l.Rank
	}
	return c.abort(wire.Abort{Rank: l.Rank, Host: c.hostOf(l.Rank), Cause: cause})
}

// abort tells all ranks to abort, once.
func (c *core) abort(a wire.Abort) []any {
	if c.aborted {
		return nil
	}
	c.aborted, c.told = true, a.Cause
	if a.Rank >= 0 {
		c.told = fmt.Sprintf("rank %d on %s: %s", a.Rank, a.Host, a.Cause)
	}
	return []any{actAbort{a}}
}

// stop asks every host to end its ranks. Asked again it can only hurry.
func (c *core) stop(grace, now time.Duration) []any {
	giveUp := now + grace + stopMargin
	if c.stopping && giveUp >= c.giveUpAt {
		return nil
	}
	c.stopping, c.giveUpAt = true, giveUp
	return []any{actStop{grace}}
}

func (c *core) over(now time.Duration) bool {
	if c.stopping && now >= c.giveUpAt {
		return true
	}
	for i := range c.hosts {
		if !c.settled(i) {
			return false
		}
	}
	return true
}

// settled reports that nothing more is expected of a host.
func (c *core) settled(host int) bool {
	h := c.hosts[host]
	return h.done || h.lost != nil && !h.ends
}

// result returns the outcome of the job.
func (c *core) result() Result {
	r := Result{Stopped: c.reason, Exits: c.exits}
	for i, h := range c.hosts {
		r.Unkillable = append(r.Unkillable, h.left...)
		if h.lost != nil {
			r.Lost = append(r.Lost, HostError{Host: h.name, Err: h.lost})
		} else if !h.done {
			r.Unconfirmed = append(r.Unconfirmed, c.hosts[i].name)
		}
	}
	r.Cause = c.cause()
	return r
}

// cause returns the earliest failure that is no consequence of another: not of a rank
// that gorun stopped, and of a victim (a rank that had lost another rank or was told to
// abort) only if there is no other.
func (c *core) cause() *Failure {
	var first *Failure
	var firstAt time.Duration
	consider := func(at time.Duration, f Failure) {
		switch {
		case first == nil, first.Victim && !f.Victim, first.Victim == f.Victim && at < firstAt:
			first, firstAt = &f, at
		}
	}
	for _, e := range c.exits {
		if e.failed() && !e.Stopped {
			f := Failure{Rank: e.Rank, Host: c.hostOf(e.Rank), Exit: e, At: e.At}
			if _, reported := c.victims[e.Rank]; reported {
				f.Victim = true
			} else if e.Aborted && e.Rank != c.gaveUp {
				f.Victim, f.Told = true, prose.Printable(c.told)
			}
			consider(e.At, f)
		}
	}
	for _, h := range c.hosts {
		if h.lost != nil {
			consider(h.at, Failure{Rank: -1, Host: h.name, Lost: h.lost, At: h.at})
		}
	}
	if first != nil && first.Victim {
		if host := c.lostWith(); host != "" {
			return &Failure{Rank: -1, Host: host, At: first.At, Lost: errors.New("no word from it since other ranks lost their connections to its ranks")}
		}
	}
	return first
}

// lostWith is a host of which nothing is known any more, with a rank that others lost; "" if there is none. The ranks
// notice the end of a host before gorun does, and the job may end in between.
func (c *core) lostWith() string {
	for _, rank := range c.victims {
		name := c.hostOf(rank)
		if slices.ContainsFunc(c.hosts, func(h hostState) bool { return h.name == name && !h.done }) {
			return name
		}
	}
	return ""
}
