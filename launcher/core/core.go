package core

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/plan"
)

// StopMargin is how long after the grace the launcher waits for the agents' last reports.
const StopMargin = 3 * time.Second

// HungTime is the silence after which a connected agent counts as hung.
const HungTime = 30 * time.Second

// SuspendedTime is a gap between two events that only a suspended launcher explains.
const SuspendedTime = 3 * time.Second

// TickTime is the interval at which a machine that stops its ranks needs a [Tick].
const TickTime = 100 * time.Millisecond

// Event is an input of the machine.
type Event interface{ event() }

// Action is an output of the machine, for every host.
type Action interface{ action() }

// Events. Hosts are indexes in the plan; times are on the launcher's monotonic clock.
type (
	// RankExited reports the end of a rank of a host.
	RankExited struct {
		Host int
		Exit Exit
	}
	// RankLost reports that a rank lost its connection to another.
	RankLost struct{ wire.Lost }
	// HostDone reports that every rank of a host has ended and is swept up, except the processes
	// left.
	HostDone struct {
		Host int
		Left []Unkillable
	}
	// HostLost reports that a host or its agent is lost.
	HostLost struct {
		Host int
		Err  error
	}
	// RankLate reports that a rank has not called MPI_Init in time, or was not spawned.
	RankLate struct {
		Rank int
		Err  error
	}
	// HostFailing reports that an agent is about to end its ranks and itself.
	HostFailing struct {
		Host int
		Err  error
	}
	// Stop is a request of the user, or of a time limit, to end the job.
	Stop struct {
		Why StopReason
		Now bool // no time between TERM and KILL
	}
	// Abort reports that the ranks cannot go on together, though none has failed.
	Abort struct{ wire.Abort }
	// Woke reports that the launcher was suspended: frames of that time are unread.
	Woke struct{ Still time.Duration }
	// Tick reports that time has passed.
	Tick struct{}
)

func (RankExited) event()  {}
func (RankLost) event()    {}
func (HostDone) event()    {}
func (HostLost) event()    {}
func (RankLate) event()    {}
func (HostFailing) event() {}
func (Stop) event()        {}
func (Abort) event()       {}
func (Woke) event()        {}
func (Tick) event()        {}

// Actions.
type (
	// StopRanks ends the ranks.
	StopRanks struct{ Grace time.Duration }
	// AbortRanks tells the ranks to abort.
	AbortRanks struct{ wire.Abort }
)

func (StopRanks) action()  {}
func (AbortRanks) action() {}

// StopReason is why a job was ended from outside, or zero.
type StopReason int

// Reasons to stop a job.
const (
	NotStopped StopReason = iota
	Interrupted
	Terminated
	HungUp
	TimedOut
	OutputClosed // its reader has ended
	OutputFailed // it cannot be written
	Hung         // no rank made progress
)

type hostState struct {
	name string
	done bool
	left []Unkillable // processes that cannot be killed
	lost error
	ends bool // whether its agent has announced its end, which is still to come
	at   time.Duration
}

// Machine is the state of one job from the start of its ranks. It is pure, and not safe for
// concurrent use.
type Machine struct {
	grace      time.Duration
	allowed    Tolerance
	hosts      []hostState
	hostOf     func(rank int) string
	exits      []Exit
	victims    victims
	aborter    int // rank that requested the abort, or whose leaving led to it; -1: none
	awaited    int // rank that ended while another waits for it in MPI, or -1
	waiter     int // the one that waits
	awaitedAt  time.Duration
	late       *Failure // failure of a rank that did not call MPI_Init in time
	aborted    bool
	abortCause string // cause of the abort
	reason     StopReason
	held       time.Duration // end of the stop's wait for the aborter; 0: no wait
	stopping   bool
	// stopCause is why they are stopped, as far as it was known then; nil: unknown.
	stopCause *StopCause
	deadline  time.Duration // end of the wait for hosts, if stopping
	finished  bool
}

// New returns a machine for a plan whose ranks have just been started.
func New(plan plan.Plan, grace time.Duration, allowed Tolerance) *Machine {
	c := &Machine{
		grace:   grace,
		allowed: allowed,
		victims: victims{},
		aborter: -1,
		awaited: -1,
		hostOf: func(rank int) string {
			if h := plan.Host(rank); h != nil {
				return h.Name
			}
			return ""
		},
	}
	for _, h := range plan.Hosts {
		c.hosts = append(c.hosts, hostState{name: h.Name})
	}
	return c
}

// Step handles one event at time now, which must not decrease, and returns the actions in order.
func (c *Machine) Step(event Event, now time.Duration) []Action {
	if c.finished {
		return nil
	}
	var acts []Action
	switch e := event.(type) {
	case RankExited:
		acts = c.rankExited(e, now)
	case RankLost:
		acts = c.rankLost(e.Lost, now)
	case RankLate:
		c.late = &Failure{
			Rank: -1,
			Host: c.hostOf(e.Rank),
			Lost: e.Err,
			At:   now,
		}
		acts = c.fail(wire.Abort{Rank: -1, Host: c.late.Host, Cause: e.Err.Error()}, now)
	case Abort:
		acts = c.abort(e.Abort)
	case HostDone:
		c.hosts[e.Host].done = true
		c.hosts[e.Host].left = e.Left
	case HostLost:
		acts = c.hostLost(e, now)
	case HostFailing:
		acts = c.hostFailing(e, now)
	case Stop:
		if c.reason == NotStopped && !c.stopping {
			c.reason = e.Why
		}
		grace := c.grace
		if e.Now {
			grace = 0
		}
		acts = c.stop(grace, now)
	case Woke:
		c.deadline = max(c.deadline+e.Still, now+TickTime)
		return nil // the next event checks whether the job is over
	case Tick:
	}
	if c.held > 0 && now >= c.held {
		acts = append(acts, c.release(now)...)
	}
	if c.over(now) {
		c.finished = true
	}
	return acts
}

func (c *Machine) rankExited(e RankExited, now time.Duration) []Action {
	c.exits = append(c.exits, e.Exit)
	switch failed := !c.GoesOn(e.Exit) && !e.Exit.Stopped; {
	case c.held > 0 && (e.Exit.Rank == c.aborter || failed && !c.isVictim(e.Exit)):
		return c.release(now)
	case !failed || c.held > 0:
		return nil
	}
	cause := wire.Abort{Rank: e.Exit.Rank, Host: c.hosts[e.Host].name, Cause: e.Exit.Describe()}
	// The rank failed because another one had left; losses of other kinds abort at once.
	if !c.aborted && c.victims.includes(e.Exit) {
		c.aborter = c.victims.origin(e.Exit.Rank)
		cause = wire.Abort{Rank: c.aborter, Host: c.hostOf(c.aborter),
			Cause: fmt.Sprintf("it left, and rank %d failed", e.Exit.Rank)}
	}
	acts := c.abort(cause)
	if c.aborter >= 0 && !c.stopping && c.isVictim(e.Exit) && !c.ended(c.aborter) {
		c.held = now + originTime
		return acts
	}
	return append(acts, c.stop(c.grace, now)...)
}

// GoesOn reports whether the end of a rank leaves the others running. Ranks that were told to abort
// do not go on without those that did.
func (c *Machine) GoesOn(e Exit) bool { return !e.IsFailure() || !c.aborted && c.allowed.Allows(e) }

// fail aborts the job and stops its ranks.
func (c *Machine) fail(why wire.Abort, now time.Duration) []Action {
	return append(c.abort(why), c.stop(c.grace, now)...)
}

// release stops the ranks after the wait for the aborter's end.
func (c *Machine) release(now time.Duration) []Action {
	c.held = 0
	return c.stop(c.grace, now)
}

func (c *Machine) abort(a wire.Abort) []Action {
	if c.aborted {
		return nil
	}
	c.aborted = true
	c.abortCause = a.Cause
	if a.Rank >= 0 {
		c.abortCause = fmt.Sprintf("rank %d on %s: %s", a.Rank, a.Host, a.Cause)
	}
	return []Action{AbortRanks{Abort: a}}
}

// stop asks every host to end its ranks. A later call only counts if its deadline is earlier.
func (c *Machine) stop(grace, now time.Duration) []Action {
	deadline := now + grace + StopMargin
	if c.stopping && deadline >= c.deadline {
		return nil
	}
	if !c.stopping {
		c.stopCause = c.whyStopped()
	}
	c.stopping = true
	c.held = 0
	c.deadline = deadline
	return []Action{StopRanks{Grace: grace}}
}

func (c *Machine) over(now time.Duration) bool {
	if c.stopping && now >= c.deadline {
		return true
	}
	for i := range c.hosts {
		if !c.Settled(i) {
			return false
		}
	}
	return true
}

// Settled reports that nothing more is expected of a host.
func (c *Machine) Settled(host int) bool {
	h := c.hosts[host]
	return h.done || h.lost != nil && !h.ends
}

// StopLate records why the user ended a job that was over except for its output. An earlier reason
// counts.
func (c *Machine) StopLate(why StopReason) {
	if c.reason == NotStopped && !c.stopping {
		c.reason = why
	}
}

// Stopped reports whether the job is being ended from outside.
func (c *Machine) Stopped() bool { return c.reason != NotStopped }

// Stopping reports whether the ranks are being stopped, for any reason.
func (c *Machine) Stopping() bool { return c.stopping }

// Finished reports that the job is over. Step then does nothing.
func (c *Machine) Finished() bool { return c.finished }

// Result returns the outcome of the job.
func (c *Machine) Result() Result {
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
	if r.Cause == nil && c.awaited >= 0 && c.reason == NotStopped {
		r.Cause = c.withoutEnd()
	}
	r.Others = c.tolerated(r.Cause)
	return r
}

// withoutEnd blames the host of the awaited rank: it ended the job, and does not say that the rank
// ended before the ranks were stopped. A hostile host would have gorun exit with 0.
func (c *Machine) withoutEnd() *Failure {
	return &Failure{
		Rank: -1,
		Host: c.hostOf(c.awaited),
		Lost: fmt.Errorf("it reported that rank %d ended while others waited, but sent no exit status", c.awaited),
		At:   c.awaitedAt,
	}
}

// tolerated returns the failures of ranks that left the others running, but for the first one.
func (c *Machine) tolerated(first *Failure) (others []Failure) {
	for _, e := range c.exits {
		if e.IsFailure() && !e.Stopped && !e.Aborted && c.allowed.Allows(e) && e.Rank != first.Rank {
			others = append(others, c.failureOf(e))
		}
	}
	return others
}

func (c *Machine) failureOf(e Exit) Failure {
	return Failure{
		Rank: e.Rank,
		Host: c.hostOf(e.Rank),
		Exit: e,
		At:   e.At,
	}
}

// cause returns the earliest failure that is no consequence of another: not of a rank
// that gorun stopped, and of a victim (a rank that had lost another rank or was told to
// abort) only if there is no other.
func (c *Machine) cause() *Failure {
	var first *Failure
	var firstAt time.Duration
	consider := func(at time.Duration, f Failure) {
		switch {
		case first == nil, first.Victim && !f.Victim, first.Victim == f.Victim && at < firstAt:
			first = &f
			firstAt = at
		}
	}
	leftAt, left := c.leftMPI() // once: a hostile host may have many ranks that abort
	if c.late != nil {
		consider(c.late.At, *c.late)
	}
	for _, e := range c.exits {
		if e.Rank == c.awaited && !e.IsFailure() {
			e.MPI = MPIAwaited
			e.Waiter = c.waiter
		}
		if e.IsFailure() && !e.Stopped {
			f := c.failureOf(e)
			if c.victims.includes(e) {
				f.Victim = true
			} else if e.Aborted && e.Rank != c.aborter {
				f.Victim = true
				f.AbortCause = prose.Printable(c.abortCause)
			} else if e.MPI == MPIAborted {
				f.Victim = left && leftAt < e.At+abortLag
			}
			consider(e.At, f)
		}
	}
	for _, h := range c.hosts {
		if h.lost != nil {
			consider(h.at, Failure{
				Rank: -1,
				Host: h.name,
				Lost: h.lost,
				At:   h.at,
			})
		}
	}
	if first != nil && first.Victim {
		if host := c.lostWith(); host != "" {
			return &Failure{
				Rank: -1,
				Host: host,
				At:   first.At,
				Lost: errors.New("no word from it since other ranks lost their connections to its ranks"),
			}
		}
	}
	return first
}

// abortLag bounds the delay between the moment when MPI notices the end of a rank and its report.
const abortLag = time.Second

// leftMPI returns when a rank first left its MPI without a word, if any did. Libraries abort when
// they lose a connection, so that ranks which abort from then on are victims. A rank that fails
// because of the abort ends otherwise.
func (c *Machine) leftMPI() (first time.Duration, left bool) {
	for _, e := range c.exits {
		unfinished := e.MPI == MPIUnfinished || e.Signal == int(syscall.SIGKILL)
		if unfinished && !e.Stopped && (!left || e.At < first) {
			first = e.At
			left = true
		}
	}
	return first, left
}
