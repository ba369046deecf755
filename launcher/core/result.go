package core

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/postmortem"
	"github.com/gorun/gorun/internal/prose"
)

// Exit codes that gorun itself chooses. See docs/exit-codes.md.
const (
	CodeHang       = 122 // no rank made progress for too long
	CodeUnkillable = 123 // nothing failed, but processes of the job cannot be killed
	CodeTimeout    = 124
	CodeLaunch     = wire.CodeHostFailed // a job could not be launched, or a host was lost
)

// Result is how a job that was started ended.
type Result struct {
	Codes       Codes      // how failures become the exit code
	Cause       *Failure   // the failure that ended the job; nil if nothing failed
	Others      []Failure  // failures after it that left the other ranks running
	Stopped     StopReason // why the job was ended from outside, or zero
	Exits       []Exit
	Lost        []HostError // hosts that were lost
	Unconfirmed []string    // hosts that did not report the end of their ranks in time
	Unkillable  []Unkillable
	Output      error // why output was lost, or nil
	Back        *Back // files that came back from hosts; nil: none were asked for
	OpenLine    bool  // whether the ranks' last line where stderr goes has no end
	// Elastic is how an elastic job ended, or nil for other jobs.
	Elastic *ElasticEnd
	// Started is when the ranks were released, Ended when all of them had ended, since the job
	// began.
	Started, Ended time.Duration
}

// Back is what came back from hosts when the ranks had ended.
type Back struct {
	Dir    string
	Hosts  int // hosts from which all files came, or that share the folder
	Files  int
	Bytes  int64
	Notes  []string // files that were left out, a line each
	Failed []HostError
}

// Unkillable is a process of the job that waits in the kernel: SIGKILL ends it only when it leaves.
type Unkillable struct {
	Host string
	Process
}

// Process is a process on a host.
type Process struct {
	PID   int
	Name  string
	State string // a letter as in proc(5): D waits in the kernel
}

func (u Unkillable) String() string {
	return fmt.Sprintf("%s: process %d (%s) cannot be killed", u.Host, u.PID, prose.Printable(u.Name))
}

// Failure is the first failure of a job: of a rank, or of a host.
type Failure struct {
	Rank int // -1: the host itself
	Host string
	Exit Exit
	Lost error
	// Victim reports that the rank had lost another rank, whose failure is unknown, or was told to
	// abort.
	Victim     bool
	AbortCause string // why the rank was told to abort, or ""
	At         time.Duration
	Stderr     []string // end of the rank's stderr, a whole traceback if there is one; safe for a terminal
	Shown      bool     // whether Stderr has just been printed
	Advice     string   // next step for a known failure that Stderr reports, or ""
	Log        string   // the file with its stderr, or else its stdout; "": none

	Program string // the name of the rank's program, where the job has several
}

// ReadStderr sets Stderr and Advice by the last lines of the rank's stderr.
func (f *Failure) ReadStderr(lines []string) {
	f.Stderr, f.Advice = postmortem.Read(lines, postmortem.Rank{Host: f.Host, Program: f.Exit.Program})
}

func (f Failure) String() string {
	if late := new(LateError); errors.As(f.Lost, &late) {
		return late.Error()
	}
	if f.Lost != nil {
		return fmt.Sprintf("host %s: %v", f.Host, f.Lost)
	}
	which := ""
	if f.Program != "" {
		which = " (" + f.Program + ")"
	}
	return fmt.Sprintf("rank %d%s on %s %s", f.Rank, which, f.Host, f.Exit.Describe())
}

// Code is the exit code gorun ends with: that of the failures by Codes, where a signal counts as
// 128 + signal, or one of gorun's own. It is pure.
func (r Result) Code() int {
	code := r.endCode()
	if code == 0 && r.Back != nil && len(r.Back.Failed) > 0 {
		return CodeLaunch
	}
	return code
}

// endCode is the exit code without what comes after the ranks' end.
func (r Result) endCode() int {
	switch r.Stopped {
	case Interrupted:
		return wire.SignalCode(syscall.SIGINT)
	case Terminated:
		return wire.SignalCode(syscall.SIGTERM)
	case HungUp:
		return wire.SignalCode(syscall.SIGHUP)
	case OutputClosed:
		return wire.SignalCode(syscall.SIGPIPE)
	case OutputFailed:
		return CodeLaunch
	case TimedOut:
		return CodeTimeout
	case Hung:
		return CodeHang
	}
	if r.Elastic != nil && (r.Elastic.Code != 0 || len(r.Unkillable) == 0) {
		return r.elasticCode()
	}
	switch f := r.Cause; {
	case f == nil && len(r.Unconfirmed) == 0 && len(r.Unkillable) > 0:
		return CodeUnkillable
	case f == nil && len(r.Unconfirmed) == 0:
		return 0
	case f == nil || f.Lost != nil:
		return CodeLaunch
	default:
		return r.Codes.of(f.Exit, r.Exits)
	}
}

// elasticCode returns the exit code of an elastic job. Only the failure that ended it counts: ranks
// may fail and start again.
func (r Result) elasticCode() int {
	if code := r.Elastic.Code; code == 0 || code == CodeLaunch {
		return code
	}
	return r.Codes.of(Exit{Code: r.Elastic.Code}, nil)
}

// HostError is the failure of one host.
type HostError struct {
	Host string
	Err  error
}

func (e HostError) Error() string {
	reason := e.Reason()
	if strings.HasPrefix(reason, "(") { // the host's address or port precedes the reason
		return e.Host + " " + reason
	}
	return e.Host + ": " + reason
}

func (e HostError) Unwrap() error { return e.Err }

// Reason returns the error without the name of the host that errors of connections begin with.
func (e HostError) Reason() string {
	return strings.TrimPrefix(strings.TrimPrefix(e.Err.Error(), e.Host+" "), e.Host+": ")
}

// ElasticEnd is how an elastic job ended.
type ElasticEnd struct {
	Code  int
	Cause string // reason for a Code other than 0
	Hint  string // what the user can do about the cause, or ""
}
