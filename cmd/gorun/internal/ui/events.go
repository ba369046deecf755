package ui

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// jobEvent is a line of --json-events, which docs/output.md describes.
type jobEvent struct {
	Event   string      `json:"event"`
	Time    time.Time   `json:"time"`
	Ranks   int         `json:"ranks,omitempty"`
	Hosts   []eventHost `json:"hosts,omitempty"`
	Program []string    `json:"program,omitempty"`
	Rank    *int        `json:"rank,omitempty"`
	Host    string      `json:"host,omitempty"`
	Code    *int        `json:"code,omitempty"`
	Signal  string      `json:"signal,omitempty"`
	Stopped bool        `json:"stopped,omitempty"`
	Seconds *float64    `json:"seconds,omitempty"` // since the ranks started
	CPU     float64     `json:"cpu_seconds,omitempty"`
	MaxRSS  int64       `json:"max_rss,omitempty"` // bytes
	Memory  string      `json:"out_of_memory,omitempty"`
	Limit   int64       `json:"memory_limit,omitempty"` // bytes
	Error   string      `json:"error,omitempty"`
	Kind    string      `json:"kind,omitempty"`  // kind of an elastic job's event
	Epoch   int         `json:"epoch,omitempty"` // latest epoch
	Text    string      `json:"text,omitempty"`
	Hint    string      `json:"hint,omitempty"`
	Stderr  []string    `json:"stderr,omitempty"`
	Log     string      `json:"log,omitempty"`

	Programs []eventProgram `json:"programs,omitempty"` // instead of Program if there are several
}

// eventHost is a host of the plan and its ranks.
type eventHost struct {
	Host  string `json:"host"`
	Ranks []int  `json:"ranks"`
}

// eventProgram is a program and the number of its ranks, in rank order.
type eventProgram struct {
	Program []string `json:"program"`
	Ranks   int      `json:"ranks"`
}

// eventLog writes the steps of a job as JSON lines. It is safe for concurrent use.
type eventLog struct {
	mu      sync.Mutex
	file    *os.File
	out     io.Writer // file
	now     func() time.Time
	started time.Duration
	broken  func(error) // called on the first lost line; nil afterwards
}

// OpenEvents opens the target of --json-events: a file, or fd:N.
func OpenEvents(name string, console *UI) (*eventLog, error) {
	log := &eventLog{now: time.Now, broken: func(err error) {
		console.Warningf("writing the job's steps stopped: %v", err)
	}}
	number, numbered := strings.CutPrefix(name, "fd:")
	if !numbered {
		file, err := trust.Create(name)
		if err != nil {
			return nil, usage.Errorf(cmp.Or(usage.Hint(err), "name a file in an existing folder that you may write to"),
				"open the file of --json-events: %w", err)
		}
		return log.to(file, console), nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 1 {
		return nil, usage.Errorf("for example --json-events fd:3 3>steps.json",
			"--json-events %q: expected fd: and the number of an open descriptor", name)
	}
	// Descriptors that gorun itself opened have close-on-exec; inherited ones do not.
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, usage.Errorf("for example --json-events fd:3 3>steps.json",
			"--json-events %s: descriptor %d is not open", name, fd)
	}
	unix.CloseOnExec(fd) // ranks must not inherit it
	return log.to(os.NewFile(uintptr(fd), name), console), nil
}

func (l *eventLog) to(file *os.File, console *UI) *eventLog {
	l.out = &DeadlineWriter{W: file, Deadline: console.Deadline}
	l.file = file
	return l
}

func (l *eventLog) Close() {
	if err := l.file.Close(); err != nil {
		l.fail(err)
	}
}

func (l *eventLog) fail(err error) {
	if l.broken != nil {
		l.broken(err)
		l.broken = nil
	}
}

// write writes a line without buffering, for readers that follow the file.
func (l *eventLog) write(e jobEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = l.now()
	line, err := json.Marshal(e)
	if err == nil && l.broken != nil {
		_, err = l.out.Write(append(prose.PlainJSON(line), '\n'))
	}
	if err != nil {
		l.fail(err)
	}
}

func (l *eventLog) Plan(plan launcher.Plan, programs []launcher.Program) {
	e := jobEvent{Event: "plan", Ranks: plan.Size}
	if len(programs) == 1 {
		e.Program = programs[0].Argv
		programs = nil
	}
	for _, p := range programs {
		e.Programs = append(e.Programs, eventProgram{p.Argv, p.Ranks})
	}
	for _, h := range plan.Hosts {
		e.Hosts = append(e.Hosts, eventHost{h.Name, h.Numbers()})
	}
	l.write(e)
}

// Event writes a step that the launcher reports.
func (l *eventLog) Event(event launcher.Event) {
	switch e := event.(type) {
	case launcher.Connected:
		l.write(jobEvent{Event: "connected", Host: e.Host})
	case launcher.Ready:
		l.write(jobEvent{Event: "ready", Host: e.Host})
	case launcher.Started:
		l.started = e.At
		l.write(jobEvent{Event: "started"})
	case launcher.Exited:
		step := jobEvent{Event: "exit", Host: e.Host}
		l.fill(&step, e.Exit)
		l.write(step)
	case launcher.Membership:
		l.write(jobEvent{
			Event:   "elastic",
			Kind:    e.Kind,
			Epoch:   e.Epoch,
			Host:    e.Host,
			Text:    e.Text,
			Seconds: l.since(e.At),
		})
	case launcher.HostLost:
		l.write(jobEvent{
			Event:   "lost",
			Host:    e.Host,
			Error:   e.Err.Error(),
			Seconds: l.since(e.At),
		})
	}
}

// fill sets the fields of a rank's end.
func (l *eventLog) fill(step *jobEvent, e launcher.Exit) {
	step.Rank = &e.Rank
	step.Code = &e.Code
	step.Stopped = e.Stopped
	if e.Stopped {
		step.Text = e.StopText()
	}
	step.Seconds = l.since(e.At)
	step.CPU = e.CPU.Seconds()
	step.MaxRSS = e.MaxRSS
	step.Memory = string(e.OutOfMemory)
	step.Limit = e.MemoryLimit
	step.Error = e.Failed
	if e.Signal != 0 {
		step.Code = nil
		step.Signal = signalText(e.Signal)
	}
}

func (l *eventLog) since(at time.Duration) *float64 {
	s := max(0, at-l.started).Round(time.Microsecond).Seconds()
	return &s
}

// End writes the first cause of failure, if any, and the end of the job.
func (l *eventLog) End(end Outcome) {
	code := end.Code()
	done := jobEvent{Event: "done", Code: &code}
	if end.Err != nil {
		done.Error = end.Err.Error()
		done.Hint = usage.Hint(end.Err)
		l.write(done)
		return
	}
	if f := end.Result.Cause; f != nil {
		step := jobEvent{Event: "cause", Host: f.Host, Seconds: l.since(f.At)}
		if f.Rank >= 0 {
			l.fill(&step, f.Exit)
		}
		step.Error = f.String()
		step.Hint = failureHint(*f)
		step.Stderr = f.Stderr
		step.Log = f.Log
		l.write(step)
	}
	if e := end.Result.Elastic; e != nil {
		done.Hint = e.Hint
	}
	done.Seconds = l.since(end.Result.Ended)
	done.Stopped = end.Result.Stopped != launcher.NotStopped
	l.write(done)
}
