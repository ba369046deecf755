package core

import (
	"fmt"
	"slices"
	"syscall"
)

// StopCause is why gorun stopped ranks: a request, a rank that had failed, or a host.
type StopCause struct {
	Reason StopReason // NotStopped: a failure
	Rank   int        // rank that had failed; -1: none
	Host   string     // host that had failed, if no rank had
}

func (s StopCause) String() string {
	switch {
	case s.Reason != NotStopped:
		return s.Reason.String()
	case s.Rank >= 0:
		return fmt.Sprintf("rank %d failed", s.Rank)
	}
	return fmt.Sprintf("host %s failed", s.Host)
}

func (r StopReason) String() string {
	switch r {
	case Interrupted:
		return "SIGINT"
	case Terminated:
		return "SIGTERM"
	case HungUp:
		return "SIGHUP"
	case TimedOut:
		return "--timeout"
	case Hung:
		return "--hang-timeout"
	case OutputClosed:
		return "the end of its output's reader"
	case OutputFailed:
		return "a failure to write its output"
	}
	return ""
}

// StopCause returns why the ranks are being stopped, or nil.
func (c *Machine) StopCause() *StopCause { return c.stopCause }

// whyStopped returns why the ranks are about to be stopped, as far as it is known, or nil.
func (c *Machine) whyStopped() *StopCause {
	if c.reason != NotStopped {
		return &StopCause{Reason: c.reason, Rank: -1}
	}
	f := c.cause()
	if f == nil {
		return nil
	}
	// A host that only lost ranks blame may still report why one of its ranks failed.
	lost := slices.ContainsFunc(c.hosts, func(h hostState) bool { return h.lost != nil })
	victim := slices.IndexFunc(c.exits, func(e Exit) bool { return e.IsFailure() && !e.Stopped })
	if f.Rank < 0 && c.late == nil && !lost && victim >= 0 {
		return &StopCause{Rank: c.exits[victim].Rank}
	}
	return &StopCause{Rank: f.Rank, Host: f.Host}
}

// StopText describes how gorun stopped the rank, such as "stopped by gorun after rank 3 failed".
func (e Exit) StopText() string {
	text := "stopped by gorun"
	if e.Cause != nil {
		text += " after " + e.Cause.String()
	}
	if e.Signal == int(syscall.SIGKILL) {
		text += ", by SIGKILL"
	}
	return text
}
