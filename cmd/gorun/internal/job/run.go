// Package job turns settings into a job of the launcher and runs it.
package job

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/tool"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
)

// Streams is standard input, output and error of gorun.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	Waiting  *os.File // pipe to the gorun that waits for a detached job's start; nil: not detached
}

// run is one job, from the user's options to its end.
type run struct {
	o         *settings.Options
	io        Streams
	console   *ui.UI
	screen    *ui.Screen // nil without a terminal
	where     hosts.Selection
	pods      *hosts.PodWatch // nil: no host is a pod that is followed
	plan      launcher.Plan
	env       environment
	tools     tool.Decision
	opts      launcher.Options
	followers []follower             // oldest first
	slow      chan launcher.SlowRank // those that spares may replace
}

// Run plans and runs a job, and returns gorun's exit code.
func Run(ctx context.Context, o *settings.Options, programs []program, io Streams, console *ui.UI) (code int,
	err error) {
	if o.EnvFlags {
		return 0, printEnvFlags(os.Environ(), programs, io.Out, console)
	}
	r := &run{
		o:       o,
		io:      io,
		console: console,
		screen:  ui.FindScreen(io.In, io.Out),
		tools:   tool.Decision{Here: -1},
		slow:    make(chan launcher.SlowRank, 1),
	}
	if err := r.prepare(ctx, programs); err != nil {
		return 0, err
	}
	warnings := r.warn()
	if o.DryRun {
		return 0, r.describe(warnings)
	}
	if o.DisplayMap {
		r.showMap()
	}
	return r.launch(ctx)
}

// prepare determines where and how the ranks run.
func (r *run) prepare(ctx context.Context, programs []program) (err error) {
	finder := hosts.NewFinder(UnitCounter(r.o, r.console))
	if r.o.DryRun {
		finder = hosts.NewFinder(nil)
	}
	if r.where, r.plan, err = planJob(ctx, r.o, programs, finder); err != nil {
		return err
	}
	if err := r.plan.CheckGPUs(r.o.GPUsPerRank.PerRank); err != nil {
		return err
	}
	if !r.o.Elastic.Given() {
		r.plan = r.o.MaxSpawn.Spawning(r.plan, r.where.Hosts)
	}
	r.console.Tracef("hosts: %s", r.where.Summary())
	if r.env, err = prepareAll(os.Environ(), programs, r.plan.Size); err != nil {
		return err
	}
	if r.where.Unasked == nil && !r.o.Elastic.Given() {
		if r.screen == nil && r.o.DisregardTerminals() {
			r.console.Warningf("this is no terminal, so rank 0 gets none either")
		}
		if r.tools, err = decideTools(r.o, r.plan, r.env.programs, r.screen); err != nil {
			return err
		}
	}
	back, err := filesBack(r.o.StageBack)
	if err != nil {
		return err
	}
	r.opts, err = launchOptions(r.o, bounded(r.plan), r.env, r.io, r.console)
	r.opts.Tools = r.tools.Tools
	r.opts.Back = back
	return err
}

// warn prints the warnings and notices of the plan, and returns the warnings.
func (r *run) warn() []string {
	for _, notice := range r.env.notices {
		r.console.Notef("%s", notice)
	}
	if r.opts.Work != nil {
		r.plan.Warnings = append(r.plan.Warnings, r.opts.Work.Warnings...)
	}
	warnings := slices.Concat(r.where.Warnings, r.plan.Warnings, r.env.warnings)
	for _, w := range warnings {
		r.console.Warningf("%s", w)
	}
	return warnings
}

func (r *run) describe(warnings []string) error {
	would := NewDryRun(r.o, r.plan, r.opts, r.where, warnings)
	would.Tools = dryTools(r.tools)
	if r.where.Unasked != nil {
		r.console.Hintf("to ask now, without the job: gorun hosts --check with the same flags")
	}
	if r.o.JSON {
		return ui.WriteJSON(r.io.Out, would, "  ")
	}
	_, err := fmt.Fprintf(ui.Plain(r.io.Out), "%shosts      %s\n%s", would.planText(r.plan), r.where.Summary(),
		would.Text(r.o))
	return err
}

func (r *run) showMap() {
	r.console.Table(r.plan.String())
	if len(r.opts.Programs) > 1 {
		r.console.Table(programsText(r.opts.Programs))
	}
}

// launch runs the job with its followers, and passes the user's signals on to it.
func (r *run) launch(ctx context.Context) (int, error) {
	r.opts.Sessions = &launcher.Sessions{}
	hosts := hostRequests{r.opts.Sessions, newWatch(r.o, r.plan, r.opts.Sessions)}
	hang := newHangReporter(r.o, r.plan.Size, hosts, r.console)
	requests := ui.Listen(r.timeLimit(), hang.overdue, hang.requested, r.console)
	defer requests.Close()
	defer r.opts.Python.Close()
	defer r.each(follower.Close)
	r.opts.Stops = requests.Stops
	r.opts.Signals = requests.Signals
	r.opts.Pauses = requests.Pauses
	if err := r.follow(ctx, hosts, hang, requests); err != nil {
		return 0, err
	}
	if r.where.Pods != nil {
		r.pods = r.where.Pods.Watch()
		defer r.pods.Close()
		r.opts.Where = r.pods.Where
		r.followers = append(r.followers, newPodEnds(r.pods, r.console))
	}
	result, err := r.start(ctx)
	if result.OpenLine && (!r.o.MergeStderr || sameFile(r.io.Out, r.io.Err)) {
		r.console.FreshLine()
	}
	end := ui.Outcome{Result: result, Err: err}
	r.each(func(f follower) { f.End(end) })
	if err != nil {
		return 0, err
	}
	r.hintSecrets(result)
	return end.Code(), nil
}

// timeLimit returns when the job is stopped, and warned before.
func (r *run) timeLimit() ui.TimeLimit {
	limit := ui.TimeLimit{Timeout: time.Duration(r.o.Timeout)}
	if r.o.Warn.Signal == 0 {
		return limit
	}
	after, limited := r.o.Warn.After(limit.Timeout, time.Now(), os.Getenv)
	if !limited {
		r.console.Notef("--warn-signal has no effect: this job has no time limit (--timeout, or a Slurm job's)")
		return limit
	}
	limit.Signal = syscall.Signal(r.o.Warn.Signal)
	limit.Warning = max(after, time.Millisecond)
	return limit
}

// hintSecrets names withheld variables that a failed rank may have needed.
func (r *run) hintSecrets(result launcher.Result) {
	if result.Cause == nil || !hasRemoteHost(r.plan) {
		return
	}
	if names := missed(r.env.withheld, result.Cause.Stderr); len(names) > 0 {
		r.console.Hintf("variables that look like secrets were not sent: %s (send one with -x NAME)",
			strings.Join(names, ", "))
	}
}

// start prepares the hosts, runs the ranks until all have ended, and cleans the hosts up.
func (r *run) start(ctx context.Context) (result launcher.Result, err error) {
	commands := &hostCommands{run: r, noted: map[string]bool{}}
	r.opts.Note = commands.once
	if r.o.Elastic.Given() {
		result, err = r.startElastic(ctx, commands)
	} else if err = commands.setUp(ctx, hostsOf(r.plan), r.opts.Stops); err == nil {
		if result, err = r.startFixed(ctx); err == nil {
			commands.begin(hostsOf(r.plan))
		}
	}
	commands.tearDown(ctx, result.Lost)
	return result, err
}

func hostsOf(p launcher.Plan) (all []hostfile.Host) {
	for _, h := range p.Hosts {
		all = append(all, h.Host)
	}
	return all
}

func (r *run) startFixed(ctx context.Context) (launcher.Result, error) {
	if r.o.Stdin != "none" && r.io.In != nil {
		in, err := ui.NewInput(r.io.In)
		if err != nil {
			return launcher.Result{}, err
		}
		defer in.Close()
		r.opts.Stdin = in
	}
	return launcher.Run(ctx, r.plan, r.opts)
}
