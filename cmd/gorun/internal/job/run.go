// Package job turns settings into a job of the launcher and runs it.
package job

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/publish"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/tool"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/launcher"
)

// Streams is standard input, output and error of gorun.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
	Waiting  *os.File // of a detached job: the pipe to the gorun that waits for its start; nil: the job is not detached
}

// Run plans and runs a job, and returns gorun's exit code.
func Run(ctx context.Context, o *settings.Options, programs []program, io Streams, console *ui.UI) (code int,
	err error) {
	if o.EnvFlags {
		return 0, printEnvFlags(os.Environ(), programs, io.Out, console)
	}
	finder := hosts.NewFinder(UnitCounter(o, console))
	if o.DryRun {
		finder = hosts.NewFinder(nil)
	}
	where, plan, err := planJob(ctx, o, programs, finder)
	if err != nil {
		return 0, err
	}
	if err := plan.CheckGPUs(o.GPUsPerRank.PerRank); err != nil {
		return 0, err
	}
	if !o.Elastic.Given() {
		plan = o.MaxSpawn.Spawning(plan, where.Hosts)
	}
	console.Tracef("hosts: %s", where.Summary())
	env, err := prepareAll(os.Environ(), programs, plan.Size)
	if err != nil {
		return 0, err
	}
	var tools tool.Decision
	screen := ui.FindScreen(io.In, io.Out)
	if where.Unasked == nil && !o.Elastic.Given() {
		if tools, err = decideTools(o, plan, env.programs, screen); err != nil {
			return 0, err
		}
	}
	opts, err := launchOptions(o, bounded(plan), env, io, console)
	if err != nil {
		return 0, err
	}
	opts.Tools = tools.Tools
	for _, notice := range env.notices {
		console.Notef("%s", notice)
	}
	if opts.Work != nil {
		plan.Warnings = append(plan.Warnings, opts.Work.Warnings...)
	}
	warnings := slices.Concat(where.Warnings, plan.Warnings, env.warnings)
	for _, w := range warnings {
		console.Warningf("%s", w)
	}
	if o.DryRun {
		would := NewDryRun(o, plan, opts, where, warnings)
		would.Tools = dryTools(tools)
		if where.Unasked != nil {
			console.Hintf("to ask now, without the job: gorun hosts --check with the same flags")
		}
		if o.JSON {
			return 0, ui.WriteJSON(io.Out, would, "  ")
		}
		_, err := fmt.Fprintf(ui.Plain(io.Out), "%shosts      %s\n%s", would.planText(plan), where.Summary(),
			would.Text(o))
		return 0, err
	}
	if o.DisplayMap {
		console.Table(plan.String())
		if len(opts.Programs) > 1 {
			console.Table(programsText(opts.Programs))
		}
	}
	code, err = launch(ctx, o, where, plan, opts, io, console, &sides{
		Decision: tools,
		screen:   screen,
		io:       io,
		console:  console,
		plan:     plan,
		programs: opts.Programs,
	})
	if code > 0 && code < launcher.CodeTimeout && len(env.withheld) > 0 && hasRemoteHost(plan) {
		console.Hintf("variables that look like secrets were not sent: %s (send one with -x NAME)",
			strings.Join(env.withheld, ", "))
	}
	return code, err
}

// launch runs the job and forwards the user's signals to it.
func launch(ctx context.Context, o *settings.Options, where hosts.Selection, plan launcher.Plan, opts launcher.Options,
	io Streams, console *ui.UI, beside *sides) (int, error) {
	opts.Roster = &launcher.Roster{}
	observer := newObserver(o, plan, opts.Roster, console)
	requests := ui.Listen(time.Duration(o.Timeout), observer.overdue, observer.requested, console)
	defer requests.Close()
	opts.Stops = requests.Stops
	opts.Signals = requests.Signals
	opts.Pauses = requests.Pauses
	steps, err := ui.OpenEvents(o.JSONEvents, console)
	if err != nil {
		return 0, err
	}
	defer steps.Close()
	defer opts.Python.Close()
	steps.Plan(plan, opts.Programs)
	watched := observe(o, plan, opts.Roster)
	shared, err := share(o, plan, opts.Programs, requests, talks{opts.Roster, watched}, io, console)
	if err != nil {
		return 0, err
	}
	defer shared.close()
	observer.share(shared)
	observer.watch(requests)
	defer observer.close()
	beside.roster = opts.Roster
	beside.shared = shared
	beside.stop = func() { requests.Stop(launcher.Stop{Reason: launcher.Terminated}, console) }
	beside.begin(ctx)
	about := record.Run{
		Name:    o.Control.Name,
		Program: firstArgv(opts.Programs),
		Size:    plan.Size,
		Places:  places(o, plan),
		Began:   time.Now(),
	}
	published, err := publish.Open(o.Watch, o.Summary, about, watched, shared.id, console)
	if err != nil {
		return 0, err
	}
	defer published.Close()
	observer.published.Store(published)
	opts.Stalled = observer.stalled
	opts.Tap = observer.tap(tap(o, shared, watched))
	opts.Follow = func(e launcher.Event) {
		steps.Follow(e)
		note(watched, e)
		published.Follow(e)
		shared.follow(e)
		beside.follow(e)
	}
	run := runFixed
	if o.Elastic.Given() {
		run = runElastic
	}
	result, err := run(ctx, o, where, plan, opts, io, console)
	beside.finish()
	if err != nil {
		steps.Failed(err)
		published.End(exitcode.Of(err), err.Error(), nil)
		shared.finish(exitcode.Of(err), err.Error())
		return 0, err
	}
	console.Unseen = o.Hide.With(o.Save.Hidden()).Of(-1, 2)
	console.Conclude(result, plan.Size)
	if o.Summary {
		console.Table(ui.Summary(plan, result, published.Waits()))
	}
	steps.Result(result)
	published.End(result.Code(), ui.Ending(result), result.Cause)
	shared.finish(result.Code(), ui.Ending(result))
	return result.Code(), nil
}

// runFixed runs a job of a fixed number of ranks.
func runFixed(ctx context.Context, o *settings.Options, _ hosts.Selection, plan launcher.Plan, opts launcher.Options,
	io Streams, console *ui.UI) (launcher.Result, error) {
	if o.Stdin != "none" && io.In != nil {
		in, err := ui.NewInput(io.In)
		if err != nil {
			return launcher.Result{}, err
		}
		defer in.Close()
		opts.Stdin = in
	}
	if isTerminal(io.Err) && !o.Quiet {
		start := ui.NewFooter(console, len(plan.Hosts))
		follow := opts.Follow
		defer start.Close()
		opts.Follow = func(e launcher.Event) {
			start.Follow(e)
			follow(e)
		}
	}
	return launcher.Run(ctx, plan, opts)
}
