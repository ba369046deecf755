package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gorun/gorun/launcher"
)

// ui is the one place where gorun's own words are written: to stderr, each
// line marked as gorun's. Safe for concurrent use.
type ui struct {
	mu      sync.Mutex
	w       io.Writer
	verbose int
}

func (u *ui) line(kind, format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.w, "gorun: %s%s\n", kind, fmt.Sprintf(format, args...))
}

func (u *ui) errorf(format string, args ...any)   { u.line("error: ", format, args...) }
func (u *ui) hintf(format string, args ...any)    { u.line("hint: ", format, args...) }
func (u *ui) warningf(format string, args ...any) { u.line("warning: ", format, args...) }
func (u *ui) notef(format string, args ...any)    { u.line("", format, args...) }

// tracef is for -v.
func (u *ui) tracef(format string, args ...any) {
	if u.verbose > 0 {
		u.line("", format, args...)
	}
}

// usageError is a mistake on the command line; gorun ends with 2.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

func usagef(hint, format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), hint}
}

// hint is what an error says can be done about it, or "".
func hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// report tells the user why there is no job.
func (u *ui) report(err error) {
	var launch *launcher.LaunchError
	if errors.As(err, &launch) {
		u.reportHosts(launch.Hosts)
		return
	}
	u.errorf("%v", err)
	if h := hint(err); h != "" {
		u.hintf("%s", h)
	}
}

// reportHosts lists every failed host, hosts with one and the same reason on
// one line, and every hint once.
func (u *ui) reportHosts(failed []launcher.HostError) {
	var reasons []string
	hosts := map[string][]string{}
	var hints []string
	seen := map[string]bool{}
	for _, f := range failed {
		// Errors of a connection name the host and its address themselves.
		reason := strings.TrimPrefix(f.Err.Error(), f.Host+" ")
		if hosts[reason] == nil {
			reasons = append(reasons, reason)
		}
		hosts[reason] = append(hosts[reason], f.Host)
		if h := hint(f.Err); h != "" && !seen[h] {
			seen[h] = true
			hints = append(hints, h)
		}
	}
	for _, reason := range reasons {
		u.errorf("%s: %s", nameHosts(hosts[reason]), reason)
	}
	for _, h := range hints {
		u.hintf("%s", h)
	}
}

// nameHosts lists hosts, the first few by name.
func nameHosts(hosts []string) string {
	const most = 8
	if len(hosts) <= most {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more hosts", strings.Join(hosts[:most], ", "), len(hosts)-most)
}

// conclude tells the user how a job ended that did not simply succeed.
func (u *ui) conclude(r launcher.Result, size int) {
	switch r.Stopped {
	case launcher.TimedOut:
		u.errorf("the job was stopped: it ran longer than --timeout allows")
	case launcher.NotStopped:
		if r.Cause != nil {
			u.errorf("%v", r.Cause)
			if r.Cause.Victim {
				u.hintf("it had lost its connection to another rank before")
			}
		}
	}
	if stopped := countStopped(r); stopped > 0 && r.Stopped == launcher.NotStopped && size > 1 {
		u.notef("stopped the other ranks (%d of %d were still running)", stopped, size)
	}
	for _, h := range r.Lost {
		if r.Cause == nil || r.Cause.Host != h.Host || r.Cause.Lost == nil {
			u.errorf("host %v", h)
		}
	}
	if len(r.Unconfirmed) > 0 {
		u.errorf("no word from %s that their ranks are gone", nameHosts(r.Unconfirmed))
	}
	if r.Output != nil {
		u.errorf("%v", r.Output)
	}
}

func countStopped(r launcher.Result) (n int) {
	for _, e := range r.Exits {
		if e.Stopped {
			n++
		}
	}
	return n
}
