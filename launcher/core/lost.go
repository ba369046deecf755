package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// hostLost records the loss of a host or its agent. The job then fails, and its ranks are stopped.
func (c *Machine) hostLost(e HostLost, now time.Duration) []Action {
	h := &c.hosts[e.Host]
	if c.Settled(e.Host) {
		return nil
	}
	if h.lost != nil { // the agent has reported the cause before
		h.ends = false
		return nil
	}
	return c.failHost(e.Host, e.Err, now)
}

// hostFailing handles an agent's report that it is about to end. Its ranks run until it has ended.
func (c *Machine) hostFailing(e HostFailing, now time.Duration) []Action {
	if c.Settled(e.Host) || c.hosts[e.Host].lost != nil {
		return nil
	}
	c.hosts[e.Host].ends = true
	return c.failHost(e.Host, e.Err, now)
}

func (c *Machine) failHost(host int, err error, now time.Duration) []Action {
	h := &c.hosts[host]
	h.lost = err
	h.at = now
	return c.fail(wire.Abort{Rank: -1, Host: h.name, Cause: err.Error()}, now)
}

// rankLost aborts the job because a connection between two ranks was lost. A rank that names itself
// requests the abort and is not a victim; a rank that others await in MPI has failed. A rank that
// has left the group that both shared is no reason to abort, since the other may go on.
func (c *Machine) rankLost(l wire.Lost, now time.Duration) []Action {
	switch {
	case l.Awaited:
		if c.awaited < 0 {
			c.awaited = l.Rank
			c.waiter = l.Waiter
			c.awaitedAt = now
		}
		return c.fail(wire.Abort{Rank: l.Rank, Host: c.hostOf(l.Rank), Cause: l.Cause}, now)
	case l.By != l.Rank:
		c.victims.add(l, now)
		if l.Left {
			return nil
		}
	case !c.aborted:
		c.aborter = l.Rank
	}
	return c.abort(wire.Abort{Rank: l.Rank, Host: c.hostOf(l.Rank), Cause: RankLost{l}.AbortCause()})
}

// AbortCause is what the other ranks are told of the loss.
func (e RankLost) AbortCause() string {
	if e.By == e.Rank {
		return e.Cause
	}
	return fmt.Sprintf("rank %d lost it: %s", e.By, e.Cause)
}

// isVictim reports whether e, a failure, is a consequence of another rank's.
func (c *Machine) isVictim(e Exit) bool {
	return e.Rank != c.aborter && (e.Aborted || c.victims.includes(e))
}

// ended reports whether a rank has ended, or its host is lost.
func (c *Machine) ended(rank int) bool {
	host := c.hostOf(rank)
	return slices.ContainsFunc(c.exits, func(e Exit) bool { return e.Rank == rank }) ||
		slices.ContainsFunc(c.hosts, func(h hostState) bool { return h.name == host && h.lost != nil })
}

// lostWith returns a host that has not reported its end and has a rank that others lost, or "".
// Ranks notice the end of a host before gorun does, and the job may end in between.
func (c *Machine) lostWith() string {
	for _, lost := range c.victims {
		name := c.hostOf(lost.rank)
		if slices.ContainsFunc(c.hosts, func(h hostState) bool { return h.name == name && !h.done }) {
			return name
		}
	}
	return ""
}

const (
	// leftTime is how long the failure of a rank counts as a consequence after one of its calls
	// failed because another rank had left.
	leftTime = time.Minute
	// originTime is how long the stop waits for the end of the rank that began it: interpreters
	// take time to end.
	originTime = 5 * time.Second
)

// victims holds the ranks that reported the loss of another rank before they ended themselves.
type victims map[int]loss

type loss struct {
	rank   int           // the lost rank
	until  time.Duration // until when the victim's own failure is a consequence; 0: always
	origin int           // a rank on the way to the one that was lost first, or that one
}

// add records a report at time now.
func (v victims) add(l wire.Lost, now time.Duration) {
	until := time.Duration(0)
	if l.Left {
		// The origin of the losses loses the other ranks, too.
		if _, known := v[l.By]; known || v.origin(l.Rank) == l.By {
			return
		}
		until = now + leftTime
	}
	v[l.By] = loss{l.Rank, until, l.Rank}
}

// includes reports whether e, a failure, is a consequence.
func (v victims) includes(e Exit) bool {
	lost, ok := v[e.Rank]
	return ok && (lost.until == 0 || e.At <= lost.until)
}

// origin follows the reported losses from a rank to the rank that was lost first, or to any of
// several that lost each other. It shortens the way for the next time: a host may report that each
// of 65,536 ranks lost the one before it.
func (v victims) origin(rank int) int {
	for {
		lost, ok := v[rank]
		if !ok || lost.origin == rank {
			return rank
		}
		if next, ok := v[lost.origin]; ok {
			lost.origin = next.origin
			v[rank] = lost
		}
		rank = lost.origin
	}
}
