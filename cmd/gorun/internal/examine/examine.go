// Package examine runs the probes of gorun doctor as a job of one rank per host, collects what they
// measure, and shows the verdict.
package examine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/survey"
	"github.com/gorun/gorun/ssh"
)

const (
	startTimeout = 30 * time.Second // time limit of a probe's start
	slack        = time.Minute      // time for probes to begin, to wait for others and to end, on a busy machine
	grace        = 2 * time.Second

	sessionTimeout = 10 * time.Second
	maxNoise       = 200
	maxGPUs        = 64
	maxAttempts    = 4 // runs, each without the hosts that failed in the one before
)

// Examiner examines hosts.
type Examiner struct {
	Level string
	// Job returns the options of a job of probes on the hosts of a plan, with the connections and
	// the environment that the user's ranks would have.
	Job func(plan launcher.Plan, argv []string) (launcher.Options, error)
	// KeepTimeout keeps the start timeout that the user chose for Job.
	KeepTimeout bool
	Note        func(format string, args ...any)

	connections *connections // connections of one examination
}

// BadError refuses a job because of bad hosts.
type BadError struct {
	Hosts []string
	Help  string
}

func (e *BadError) Error() string {
	return "the job was not started: bad " + noun(len(e.Hosts)) + " " + prose.List(e.Hosts)
}

// Hint returns the command to type instead.
func (e *BadError) Hint() string { return e.Help }

func noun(n int) string {
	if n == 1 {
		return "host"
	}
	return "hosts"
}

// Report is the result of an examination.
type Report struct {
	Version  int              `json:"version"` // version of this format
	Verdict  string           `json:"verdict"` // ok, warnings or bad
	Bad      []string         `json:"bad"`     // hosts that a job should leave out
	Findings []doctor.Finding `json:"findings"`
	Level    string           `json:"level"`
	Began    time.Time        `json:"began"`
	Seconds  float64          `json:"seconds"`
	doctor.Measured
}

// Code returns the exit code of a report.
func (r Report) Code() int {
	return map[string]int{"ok": 0, "warnings": 1, "bad": 3}[r.Verdict]
}

// Run examines hosts. A finding from timing counts only if a second examination repeats it. base is
// an earlier report to compare with, or nil.
func (e *Examiner) Run(ctx context.Context, hosts []hostfile.Host, base *Report) (Report, error) {
	began := time.Now()
	hosts = distinct(hosts)
	e.connections = &connections{open: map[string]launcher.Host{}}
	defer e.connections.close()
	how := doctor.NewPlan(e.Level)
	judge := func(m doctor.Measured) []doctor.Finding {
		findings := doctor.Judge(m)
		if base != nil {
			findings = append(findings, doctor.Against(base.Measured, m)...)
		}
		return findings
	}
	m, err := e.look(ctx, hosts, func([]string) doctor.Plan { return how }, nil)
	if err != nil {
		return Report{}, err
	}
	findings := judge(m)
	if doctor.NeedsSecondLook(findings, m) {
		e.Note("looking again, to be sure of what may be chance")
		logins := m.Hosts
		if slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Kind == "login" }) {
			logins = nil
		}
		doubt := doctor.Doubts(findings, m)
		needed, plan := how.Again(doubt, m)
		again, err := e.look(ctx, slices.DeleteFunc(slices.Clone(hosts), func(h hostfile.Host) bool {
			return !slices.Contains(needed, h.Name)
		}), plan, logins)
		if err != nil {
			return Report{}, err
		}
		m = doctor.Better(m, again, doubt)
		findings = doctor.Confirm(findings, judge(m), m)
	}
	r := Report{
		Version:  1,
		Verdict:  "ok",
		Bad:      doctor.BadHosts(findings, m.Names),
		Findings: findings,
		Level:    how.Level,
		Began:    began.Round(time.Second),
		Seconds:  time.Since(began).Seconds(),
		Measured: m,
	}
	switch {
	case slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Severity == doctor.Bad }):
		r.Verdict = "bad"
	case len(findings) > 0:
		r.Verdict = "warnings"
	}
	if r.Findings == nil {
		r.Findings = []doctor.Finding{}
	}
	if r.Bad == nil {
		r.Bad = []string{}
	}
	return r, nil
}

// distinct leaves out repeated names, such as a host with two users.
func distinct(hosts []hostfile.Host) (out []hostfile.Host) {
	for _, h := range hosts {
		if !slices.ContainsFunc(out, func(o hostfile.Host) bool { return o.Name == h.Name }) {
			h.Slots = 1
			h.MaxSlots = 0
			h.Auto = false
			out = append(out, h)
		}
	}
	return out
}

// look examines all hosts once, by the plan for those that can be reached. known are what an
// earlier look knows of logins and GPUs, which are not tried again; nil: there was none.
func (e *Examiner) look(ctx context.Context, hosts []hostfile.Host, how func(alive []string) doctor.Plan,
	known map[string]doctor.Host) (doctor.Measured, error) {
	m := doctor.Measured{Hosts: map[string]doctor.Host{}}
	for _, h := range hosts {
		m.Names = append(m.Names, h.Name)
	}
	if known == nil {
		e.connections.close() // logins are to be measured
		if err := e.logIn(ctx, hosts, m.Hosts); err != nil {
			return m, err
		}
	} else {
		for _, name := range m.Names {
			m.Hosts[name] = doctor.Host{Login: known[name].Login}
		}
	}
	var failed []launcher.HostError
	for range maxAttempts {
		alive := slices.DeleteFunc(slices.Clone(hosts), func(h hostfile.Host) bool {
			return m.Hosts[h.Name].Error != ""
		})
		if len(alive) == 0 {
			break
		}
		var names []string
		for _, h := range alive {
			names = append(names, h.Name)
		}
		var err error
		if failed, err = e.probe(ctx, alive, how(names), &m); err != nil {
			return m, err
		}
		if len(failed) == 0 {
			break
		}
		for _, f := range failed {
			fail(m.Hosts, f.Host, f.Err)
		}
	}
	for _, name := range m.Names {
		if h := m.Hosts[name]; len(failed) > 0 && h.Error == "" && !h.Finished { // the last attempt failed by others
			m.Hosts[name] = doctor.Host{Login: h.Login, Unexamined: true}
		}
	}
	if known == nil {
		if err := e.askGPUs(ctx, hosts, m.Hosts); err != nil {
			return m, err
		}
	}
	for _, name := range m.Names {
		if h, ok := known[name]; ok {
			now := m.Hosts[name]
			now.GPUs = h.GPUs
			now.GPUProblem = h.GPUProblem
			m.Hosts[name] = now
		}
	}
	return m, ctx.Err()
}

// askGPUs asks the drivers of hosts with GPUs for their health. It does not contact other hosts.
func (e *Examiner) askGPUs(ctx context.Context, hosts []hostfile.Host, into map[string]doctor.Host) error {
	var with []hostfile.Host
	for _, h := range hosts {
		if f := into[h.Name].Facts; f != nil && f.NVIDIA {
			with = append(with, h)
		}
	}
	if len(with) == 0 {
		return nil
	}
	opts, err := e.Job(launcher.Plan{Size: len(with)}, nil)
	if err != nil {
		return err
	}
	e.bound(&opts)
	opts.Dial = e.connections.dial(opts.Dial, func(context.Context, hostfile.Host, launcher.Host) error { return nil })
	for _, found := range survey.Inventory(ctx, with, opts.Reach) {
		h := into[found.Host.Name]
		h.GPUs = found.Devices[:min(len(found.Devices), maxGPUs)]
		known := slices.ContainsFunc(h.GPUs, func(d gpu.Device) bool { return d.Health != nil })
		switch {
		case found.Err != nil:
			h.GPUProblem = prose.Printable(found.Err.Error())
		case !known && len(found.Warnings) > 0:
			h.GPUProblem = prose.Printable(strings.Join(found.Warnings, "; "))
		case !known:
			h.GPUProblem = "gorun-gpu is not there to ask the driver: put it beside the gorun that you start"
		}
		into[found.Host.Name] = h
	}
	return nil
}

// fail records why a host could not be examined.
func fail(hosts map[string]doctor.Host, name string, err error) {
	h := hosts[name]
	text := prose.Printable(err.Error())
	h.Error = strings.TrimPrefix(strings.TrimPrefix(text, name+" "), name+": ")
	h.Hint = prose.Printable(usage.Hint(err))
	hosts[name] = h
}

// logIn logs in to every host and starts an agent there, as a run does.
func (e *Examiner) logIn(ctx context.Context, hosts []hostfile.Host, into map[string]doctor.Host) error {
	opts, err := e.Job(launcher.Plan{Size: len(hosts)}, nil)
	if err != nil {
		return err
	}
	e.bound(&opts)
	var mu sync.Mutex
	dial := opts.Dial
	opts.Dial = func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		began := time.Now()
		return e.connections.dial(dial, func(ctx context.Context, h hostfile.Host, conn launcher.Host) error {
			if known, ok := conn.(interface{ BySSH() bool }); !ok || !known.BySSH() {
				return nil
			}
			login, err := try(ctx, conn, began)
			if err != nil {
				return err
			}
			if e.Level != "quick" {
				login.OneSession = oneSession(ctx, conn)
			}
			mu.Lock()
			defer mu.Unlock()
			into[h.Name] = doctor.Host{Login: &login}
			return nil
		})(ctx, h)
	}
	for _, c := range survey.Check(ctx, hosts, opts.Reach) {
		if c.Err != nil {
			fail(into, c.Host.Name, c.Err)
		}
	}
	return ctx.Err()
}

// try runs a command that prints nothing, so that any output comes from the shell's start files.
func try(ctx context.Context, conn launcher.Host, began time.Time) (doctor.Login, error) {
	printed := &prose.Head{Limit: maxNoise}
	err := conn.Run(ctx, []string{"true"}, bytes.NewReader(nil), printed, io.Discard)
	login := doctor.Login{Seconds: time.Since(began).Seconds(),
		Noise: strings.TrimSpace(prose.Printable(string(printed.Bytes())))}
	if known, ok := conn.(keyed); ok {
		host, user, offered := known.Keys()
		login.HostKey = host.Type
		login.UserKey = user.Type
		login.Offered = offered
	}
	return login, err
}

// keyed is a connection that knows the keys of both ends.
type keyed interface {
	Keys() (host ssh.HostKey, user ssh.Key, offered int)
}

// oneSession reports whether the host refuses a second session on a connection.
func oneSession(ctx context.Context, conn launcher.Host) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	stdin, hold := io.Pipe()
	said := &announced{first: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		err := conn.Run(ctx, []string{"cat"}, stdin, said, io.Discard)
		_ = stdin.CloseWithError(io.ErrClosedPipe)
		ended <- err
	}()
	defer func() { hold.Close(); <-ended }()
	if _, err := hold.Write([]byte("x")); err != nil {
		return false
	}
	select {
	case <-said.first: // the session is open
	case <-ctx.Done():
		return false
	}
	var refused *ssh.SessionError
	return errors.As(conn.Run(ctx, []string{"true"}, bytes.NewReader(nil), io.Discard, io.Discard), &refused)
}

// announced is a writer that closes first at the first write.
type announced struct {
	once  sync.Once
	first chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	a.once.Do(func() { close(a.first) })
	return len(p), nil
}

func (e *Examiner) bound(opts *launcher.Options) {
	if !e.KeepTimeout {
		opts.StartTimeout = startTimeout
	}
}

// probe runs one job of probes. If the job fails, it returns the hosts that caused the failure.
func (e *Examiner) probe(ctx context.Context, hosts []hostfile.Host, how doctor.Plan,
	m *doctor.Measured) (failed []launcher.HostError, err error) {
	ranks, err := plan.New(hosts, launcher.Request{NP: len(hosts)})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(how)
	if err != nil {
		return nil, err
	}
	opts, err := e.Job(ranks, []string{"/proc/self/exe", probe.Command, string(text)})
	if err != nil {
		return nil, err
	}
	e.bound(&opts)
	opts.Dial = e.connections.dial(opts.Dial, func(context.Context, hostfile.Host, launcher.Host) error { return nil })
	limit := how.Version + 2*how.Speed + how.Longest() + slack
	stops := make(chan launcher.Stop, 1)
	timer := time.AfterFunc(limit+opts.StartTimeout, func() { stops <- launcher.Stop{Reason: launcher.TimedOut} })
	defer timer.Stop()
	collected := newCollector(len(hosts))
	opts.Programs[0].Wdir = "/"
	opts.Binding = launcher.Binding{}
	opts.WithoutMPI = true
	opts.GPUs = launcher.GPURequest{Leave: true}
	opts.Work = nil
	opts.ReportBindings = false
	opts.Stdin = nil
	opts.StdinRank = 0
	opts.Stdout = io.Discard
	opts.Stderr = io.Discard
	opts.Screen = [3]bool{}
	opts.Prefix = nil
	opts.Show = nil
	opts.SaveAs = nil
	opts.OutputDir = ""
	opts.ResultDir = ""
	opts.Tap = collected.take
	opts.Stops = stops
	opts.Grace = grace
	opts.Note = nil
	opts.Follow = func(event launcher.Event) {
		if _, started := event.(launcher.Started); started {
			timer.Reset(limit)
		}
	}
	result, err := launcher.Run(ctx, ranks, opts)
	var launch *launcher.LaunchError
	switch {
	case errors.As(err, &launch):
		return launch.Hosts, nil
	case err != nil:
		return nil, err
	}
	for _, h := range hosts { // results of an earlier attempt do not count
		m.Hosts[h.Name] = doctor.Host{Login: m.Hosts[h.Name].Login}
	}
	m.Links = nil
	collected.into(hosts, m)
	switch failed := result.Lost; {
	case len(failed) > 0:
		return failed, nil
	case result.Cause != nil && result.Stopped == launcher.NotStopped && result.Cause.Host != "":
		why := fmt.Errorf("its probe %s", result.Cause.Exit.Describe())
		if result.Cause.Lost != nil {
			why = result.Cause.Lost
		} else if n := len(result.Cause.Stderr); n > 0 {
			why = fmt.Errorf("%w: %s", why, result.Cause.Stderr[n-1])
		}
		return []launcher.HostError{{Host: result.Cause.Host, Err: why}}, nil
	}
	return missing(hosts, m), nil
}

var errMissing = errors.New("its probe did not come to meet the others")

// missing returns the hosts whose probes have not ended, if others waited for them in vain.
func missing(hosts []hostfile.Host, m *doctor.Measured) (all []launcher.HostError) {
	alone := slices.ContainsFunc(hosts, func(h hostfile.Host) bool { return m.Hosts[h.Name].Alone })
	for _, h := range hosts {
		if alone && !m.Hosts[h.Name].Finished {
			all = append(all, launcher.HostError{Host: h.Name, Err: errMissing})
		}
	}
	return all
}
