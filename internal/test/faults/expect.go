package faults

import (
	"strings"
	"time"
)

// Bounds are the times that depend on the machine.
type Bounds struct {
	Slack time.Duration // what a loaded machine may take longer
	Fence time.Duration // until a host that is cut off has ended its ranks
}

const (
	graceOfDraws = 2 * time.Second        // --grace of the jobs
	reportTime   = 500 * time.Millisecond // until a decision is reported
	startTime    = 21 * time.Second       // until a host counts as unreachable before its agent has spoken
	lease        = time.Minute
	injected     = 4 // ranks of the jobs
)

// Expected returns how a job must end after d. It is pure.
func Expected(d Injection, b Bounds) Expect {
	first := infoOf(d.Fault)
	second := infoOf(d.Second)
	e := Expect{Ranks: injected}
	add := func(k kindInfo, host string) {
		if k.kind == None {
			return
		}
		e.Codes = append(e.Codes, k.code)
		e.End = max(e.End, d.end(k)+b.Slack)
		e.Clean = max(e.Clean, d.clean(k, b)+b.Slack)
		e.Torn = e.Torn || k.kind == LauncherKill || k.kind == OutputClosed
		cause := strings.ReplaceAll(k.cause, "HOST", host)
		switch {
		case cause == "":
		case e.Cause == "":
			e.Cause = cause
		default:
			e.Cause += "|" + cause
		}
	}
	add(first, d.Host)
	add(second, d.other())
	early := d.Phase == Connecting || d.Phase == Staging || d.Phase == Starting
	switch {
	case first.passes() && second.kind == None:
		e.Complete = true
	case d.Phase == Ending:
		e.Codes = append(e.Codes, 0) // it was over before
		e.Cause = ""
	case first.kind == LauncherKill || d.silent(first) || d.silent(second):
		e.Cause = "" // a job that is stopped from outside has no cause
	case second.kind != None && !first.passes() && first.detect == 0 && d.Gap > reportTime:
		e.Codes = []int{first.code}
		e.Cause = strings.ReplaceAll(first.cause, "HOST", d.Host)
	}
	if first.passes() && second.kind != None {
		e.Codes = e.Codes[1:] // the second ends it
	}
	if e.Cause != "" {
		e.Also = `did not confirm that |no word from |: host f[12]: |\bf[12]( \([0-9.:]+\))?: `
		if second.kind == None && !early {
			e.Also = `did not confirm that |no word from `
		}
	}
	return e
}

// silent reports whether the job ends without an error line: the user asked for the end, or the
// launcher is dead.
func (d Injection) silent(k kindInfo) bool { return k.kind != None && !k.passes() && k.cause == "" }

// stop returns the time from the decision to stop the job until its end.
func (d Injection) stop(k kindInfo) time.Duration {
	if d.Ignore && k.kind != LauncherIntInt {
		return graceOfDraws + reportTime
	}
	return reportTime
}

// end returns the time from the fault to the launcher's end. After a transient fault the job runs
// until it is told to stop.
func (d Injection) end(k kindInfo) time.Duration {
	wait := d.stop(k)
	switch {
	case k.passes():
		wait = d.Lasts + 2*time.Second
		if d.Phase != Running { // connections are tried again at growing intervals
			wait += d.Lasts + time.Second
		}
		if d.Phase == Staging { // and a folder is staged
			wait += 6 * time.Second
		}
	case k.kind == LauncherKill:
		wait = 0
	}
	wait += k.detect
	if k.detect > 0 && d.Phase != Running {
		wait += startTime
	}
	return wait
}

// clean returns the time from the fault to the end of the job's last process.
func (d Injection) clean(k kindInfo, b Bounds) time.Duration {
	wait := d.end(k)
	switch {
	case k.detect > 0:
		wait = max(wait, b.Fence)
		if d.Phase == Staging { // nothing runs yet that a host must be rid of soon
			wait = max(wait, lease+reportTime)
		}
	case k.kind == LauncherKill:
		wait = d.stop(k) + reportTime
	}
	return wait
}
