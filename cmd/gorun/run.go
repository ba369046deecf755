package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/launcher"
)

// streams are the terminal, or what stands for it.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// runJob is a run from options to exit code: parse, plan, then the launcher's
// connect, stage, spawn, stream and reap.
func runJob(ctx context.Context, o *runOptions, programs []program, io streams, say *ui) (code int, err error) {
	if o.envFlags {
		return 0, printEnvFlags(os.Environ(), programs, io.out, say)
	}
	where, plan, err := planJob(ctx, o, programs, newSurroundings(coreCounter(o, say)))
	if err != nil {
		return 0, err
	}
	if err := plan.CheckGPUs(o.gpusPerRank.PerRank); err != nil {
		return 0, err
	}
	say.tracef("hosts: %s", where.summary())
	env, err := prepareAll(os.Environ(), programs, plan.Size)
	if err != nil {
		return 0, err
	}
	opts, err := launchOptions(o, plan, env, io, say)
	if err != nil {
		return 0, err
	}
	for _, notice := range env.notices {
		say.notef("%s", notice)
	}
	if opts.Work != nil {
		plan.Warnings = append(plan.Warnings, opts.Work.Warnings...)
	}
	warnings := slices.Concat(where.warnings, plan.Warnings, env.warnings)
	for _, w := range warnings {
		say.warningf("%s", w)
	}
	if o.dryRun {
		would := newDryRun(o, plan, opts, where.source, warnings)
		if o.json {
			return 0, would.writeJSON(io.out)
		}
		_, err := fmt.Fprintf(io.out, "%vhosts      %s\n%s", plan, where.summary(), would.text(o))
		return 0, err
	}
	if o.displayMap {
		say.table(plan.String())
		if len(opts.Programs) > 1 {
			say.table(programsText(opts.Programs))
		}
	}
	if o.elastic.given() {
		code, err = launchElastic(ctx, o, where, plan, opts, io, say)
	} else {
		code, err = launch(ctx, o, plan, opts, io, say)
	}
	if code > 0 && code < launcher.CodeTimeout && len(env.withheld) > 0 && leavesMachine(plan) {
		say.hintf("variables that look like secrets stayed here: %s (send one with -x NAME)", strings.Join(env.withheld, ", "))
	}
	return code, err
}

// launch runs the plan while it listens to the user.
func launch(ctx context.Context, o *runOptions, plan launcher.Plan, opts launcher.Options, io streams, say *ui) (int, error) {
	wishes := listen(time.Duration(o.timeout), say)
	defer wishes.close()
	opts.Stops, opts.Signals, opts.Pauses = wishes.stops, wishes.signals, wishes.pauses
	if o.stdin != "none" && io.in != nil {
		in, err := newInput(io.in)
		if err != nil {
			return 0, err
		}
		defer in.close()
		opts.Stdin = in
	}
	steps, err := openEvents(o.jsonEvents, say)
	if err != nil {
		return 0, err
	}
	defer steps.close()
	steps.plan(plan, opts.Programs)
	var start *footer
	if isTerminal(io.err) && !o.quiet {
		start = newFooter(say, len(plan.Hosts))
	}
	opts.Follow = func(e launcher.Event) {
		start.follow(e)
		steps.follow(e)
	}
	result, err := launcher.Run(ctx, plan, opts)
	start.close()
	if err != nil {
		steps.failed(err)
		return 0, err
	}
	say.unseen = (o.hide | o.save.hidden()).of(2)
	say.conclude(result, plan.Size)
	if o.summary {
		say.table(summary(plan, result))
	}
	steps.result(result)
	return result.Code(), nil
}

// launchOptions is what Run needs beside the environment and the user's wishes.
func launchOptions(o *runOptions, plan launcher.Plan, env environment, io streams, say *ui) (launcher.Options, error) {
	tree, err := stagedFolder(o, o.launcher != "local" && (leavesMachine(plan) || o.elastic.discovery != ""))
	if err != nil {
		return launcher.Options{}, err
	}
	exe, err := ownExecutable()
	if err != nil {
		return launcher.Options{}, err
	}
	dial, err := dialer(o)
	if err != nil {
		return launcher.Options{}, err
	}
	library, err := o.mpi.library(exe.Path)
	if err != nil {
		return launcher.Options{}, err
	}
	opts := launcher.Options{Programs: env.programs, Env: env.shared, Work: tree, Network: o.network.Network, Encrypt: o.encrypt, OpenMPI4: library, Binding: o.binding(),
		ReportBindings: o.reportBindings, GPUs: o.gpusPerRank.GPUs, GPUProgram: gpuProgram(exe.Path), Dial: dial, Exe: exe,
		StartTimeout: time.Duration(o.startTimeout), Grace: time.Duration(o.grace),
		Note: func(text string) { say.notef("%s", text) }, Trace: say.tracef}
	if opts.StdinRank, err = o.stdin.rank(plan.Size); err != nil {
		return launcher.Options{}, err
	}
	return opts, outputOptions(&opts, o, plan, io)
}

func leavesMachine(plan launcher.Plan) bool {
	hostname, _ := os.Hostname()
	for _, h := range plan.Hosts {
		if !isLocal(h.Host, hostname) {
			return true
		}
	}
	return false
}

// workingDir is where the ranks run: the same path on every host. The
// current directory keeps the name the user reached it by.
func workingDir(named string) (string, error) {
	if filepath.IsAbs(named) {
		return filepath.Clean(named), nil
	}
	current, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	return filepath.Join(current, named), nil
}

// ownExecutable is the gorun that runs, to be started on hosts.
func ownExecutable() (launcher.Executable, error) {
	path, err := os.Executable()
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("find gorun itself: %w", err)
	}
	build, err := agent.Build("/proc/self/exe")
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("read gorun itself: %w", err)
	}
	hash := sync.OnceValues(func() (string, error) { return agent.Hash("/proc/self/exe") })
	return launcher.Executable{Path: path, Build: build, Hash: hash}, nil
}
