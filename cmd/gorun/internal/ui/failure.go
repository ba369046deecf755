package ui

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/core"
)

// Limits are the times after which a job is stopped.
type Limits struct {
	Timeout time.Duration
	Hang    time.Duration // without progress
}

// Conclude prints how a job of size ranks ended, unless it succeeded.
func (u *UI) Conclude(r launcher.Result, size int, limits Limits) {
	switch r.Stopped {
	case launcher.TimedOut:
		u.Errorf("the job was stopped: it ran longer than --timeout %v", limits.Timeout)
	case launcher.Hung:
		u.Errorf("the job was stopped: no rank made progress for --hang-timeout %v", limits.Hang)
	case launcher.NotStopped:
		if r.Cause != nil {
			u.failure(r, size, time.Now())
			u.tolerated(r.Others)
		}
		if r.Elastic != nil && r.Elastic.Hint != "" {
			u.Hintf("%s", r.Elastic.Hint)
		}
	}
	lost := slices.DeleteFunc(slices.Clone(r.Lost), func(h launcher.HostError) bool {
		return r.Cause != nil && r.Cause.Host == h.Host && r.Cause.Lost != nil
	})
	for _, line := range byReason(lost) {
		u.Errorf("host %s", line)
	}
	if len(r.Unconfirmed) > 0 {
		u.Errorf("%s did not confirm that all ranks ended", prose.List(r.Unconfirmed))
	}
	u.unkillable(r.Unkillable)
	if r.Output != nil {
		u.Errorf("%v", r.Output)
	}
	u.broughtBack(r.Back)
}

// broughtBack prints what came back from hosts, and what did not.
func (u *UI) broughtBack(b *core.Back) {
	if b == nil {
		return
	}
	for _, note := range b.Notes {
		u.Warningf("%s", note)
	}
	if b.Files > 0 {
		u.Notef("%s, %s, came back from %s to %s", prose.Count(b.Files, "file"), workdir.SizeText(b.Bytes),
			prose.Count(b.Hosts, "host"), b.Dir)
	}
	for _, line := range byReason(b.Failed) {
		u.Warningf("--stage-back: %s", line)
	}
}

// unkillable prints the processes that survive SIGKILL.
func (u *UI) unkillable(left []launcher.Unkillable) {
	const most = 8
	for _, p := range left[:min(len(left), most)] {
		u.Errorf("%v", p)
	}
	if len(left) > most {
		u.Errorf("%d more processes cannot be killed", len(left)-most)
	}
	if len(left) > 0 {
		u.Hintf("SIGKILL is pending: a process blocked in the kernel (ps -o pid,state,wchan) ends when its file " +
			"system or device answers")
	}
}

// mostText bounds the characters of a line of stderr, and of the error of a job.
const mostText = 300

// failure prints the first failure: rank, exit, time, the end of stderr, log file and hint. now is
// the time when the job ended.
func (u *UI) failure(r launcher.Result, size int, now time.Time) {
	f := r.Cause
	h := failureHint(*f)
	stopped := countStopped(r)
	u.Errorf("%v %s", f, when(r, now))
	lines := f.Stderr
	if (size == 1 || f.Shown) && !u.Unseen {
		lines = nil // the terminal already shows them
	}
	for _, line := range lines {
		u.Notef("rank %d stderr: %s", f.Rank, prose.Cut(line, mostText))
	}
	if f.Log != "" {
		u.Notef("its output is in %s", f.Log)
	}
	if stopped > 0 && size > 1 {
		were := "were"
		if stopped == 1 {
			were = "was"
		}
		u.Notef("stopped the other ranks (%d of %d %s still running)", stopped, max(size, len(r.Exits)), were)
	}
	if h != "" {
		u.Hintf("%s", h)
	}
}

// tolerated prints the failures that left the other ranks running, a line for those that are alike.
func (u *UI) tolerated(others []launcher.Failure) {
	var kinds []string
	ranks := map[string][]int{}
	first := map[string]launcher.Failure{}
	for _, f := range others {
		kind := f.Exit.Describe()
		if ranks[kind] == nil {
			kinds = append(kinds, kind)
			first[kind] = f
		}
		ranks[kind] = append(ranks[kind], f.Rank)
	}
	for _, kind := range kinds[:min(len(kinds), mostReasons)] {
		if len(ranks[kind]) == 1 {
			u.Errorf("%v", first[kind])
			continue
		}
		slices.Sort(ranks[kind])
		u.Errorf("ranks %s %s", prose.Ranges(ranks[kind], mostReasons), kind)
	}
	if more := len(kinds) - mostReasons; more > 0 {
		u.Errorf("other ranks failed in %d other ways; --summary lists the ranks", more)
	}
}

// when formats the time of the first failure: "(after 1.5 s, at 20:51:31)".
func when(r launcher.Result, now time.Time) string {
	ran := max(0, r.Cause.At-r.Started)
	return fmt.Sprintf("(after %s, at %s)", Seconds(ran), now.Add(r.Cause.At-r.Ended).Format(time.TimeOnly))
}

// Seconds formats a duration with three digits or to the second: "0.02 s", "1.25 s", "3725 s".
func Seconds(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}

// failureHint returns a likely reason or remedy for a failure, or "".
func failureHint(f launcher.Failure) string {
	e := f.Exit
	var ended *launcher.AgentEndedError
	var late *launcher.LateError
	var server *launcher.ServerError
	switch {
	case errors.As(f.Lost, &ended) && ended.Killed():
		return signalHint(syscall.SIGKILL, e, f.Host)
	case errors.As(f.Lost, &late):
		return "a program that exits or hangs before MPI_Init keeps the others waiting; --start-timeout 0 waits " +
			"without end"
	case errors.As(f.Lost, &server):
		return fmt.Sprintf("dmesg on %s shows whether it crashed or the kernel killed it", f.Host)
	case f.Lost != nil:
		return cmp.Or(usage.Hint(f.Lost), fmt.Sprintf("check that %s is up and reachable; its ranks end by themselves "+
			"without a launcher", f.Host))
	case f.AbortCause != "":
		return "it was notified before that the job cannot continue: " + f.AbortCause
	case f.Victim:
		return "it had already lost its connection to another rank"
	case e.Failed != "":
		return advice([]string{f.Host}, e.Remedy)
	case e.Stopped:
		return ""
	case e.OutOfMemory != "":
		return memoryHint(e, f.Host)
	case f.Advice != "":
		return f.Advice
	case e.Signal != 0:
		return signalHint(syscall.Signal(e.Signal), e, f.Host)
	case e.Code == 126 || e.Code == 127:
		return fmt.Sprintf("shells exit with %d when they cannot run or find a command: check PATH on %s", e.Code,
			f.Host)
	case e.Code > wire.CodeSignalBase && unix.SignalName(syscall.Signal(e.Code-wire.CodeSignalBase)) != "":
		return fmt.Sprintf("shells exit with this code when signal %d (%s) ended their command",
			e.Code-wire.CodeSignalBase, signalText(e.Code-wire.CodeSignalBase))
	}
	return ""
}

func signalHint(s syscall.Signal, e launcher.Exit, host string) string {
	switch s {
	case syscall.SIGKILL:
		return fmt.Sprintf("gorun did not send it; if memory ran out, dmesg on %s shows the kernel's OOM killer", host)
	case syscall.SIGBUS:
		return fmt.Sprintf("a mapped file was truncated, or /dev/shm is full on %s", host)
	case syscall.SIGILL:
		return fmt.Sprintf("the program or one of its libraries was built for a CPU other than that of %s", host)
	case syscall.SIGXCPU:
		return "it reached the CPU time limit (ulimit -t)"
	case syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGFPE:
		if !e.Core {
			return `to get a core file, write sh -c 'ulimit -c unlimited; exec "$@"' sh before the program`
		}
	}
	return ""
}

// memoryHint returns what to do when memory ran out.
func memoryHint(e launcher.Exit, host string) string {
	if e.OutOfMemory == launcher.MemoryOfGroup {
		return fmt.Sprintf("its peak was %s; raise the limit on %s (srun --mem, docker --memory, limits.memory of "+
			"a pod, MemoryMax of systemd), or put fewer ranks there", prose.Size(e.MaxRSS), host)
	}
	return fmt.Sprintf("its peak was %s; put fewer ranks on %s, or let each use less (--summary shows their peaks); "+
		"dmesg there shows the kernel's report", prose.Size(e.MaxRSS), host)
}

func countStopped(r launcher.Result) (n int) {
	for _, e := range r.Exits {
		if e.Stopped {
			n++
		}
	}
	return n
}

// Outcome is how a job ended.
type Outcome struct {
	Result launcher.Result
	Err    error // why the job did not start; nil: Result counts
}

// Code returns gorun's exit code.
func (o Outcome) Code() int {
	if o.Err != nil {
		return exitcode.Of(o.Err)
	}
	return o.Result.Code()
}

// Reason returns a reason of a failed job, or "".
func (o Outcome) Reason() string {
	r := o.Result
	switch {
	case o.Err != nil:
		return prose.Cut(o.Err.Error(), mostText) // thousands of hosts may fail, each for its own reason
	case r.Stopped != launcher.NotStopped:
		return "stopped by " + r.Stopped.String()
	case r.Cause != nil:
		return r.Cause.String()
	case r.Elastic != nil && r.Elastic.Code != 0:
		return r.Elastic.Cause
	case len(r.Unconfirmed) > 0:
		return prose.List(r.Unconfirmed) + " did not confirm that all ranks ended"
	case r.Code() != 0 && len(r.Unkillable) > 0:
		return r.Unkillable[0].String()
	}
	return ""
}
