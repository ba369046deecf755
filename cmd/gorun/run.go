package main

import (
	"cmp"
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
func runJob(ctx context.Context, o *runOptions, program []string, io streams, say *ui) (code int, err error) {
	if o.envFlags {
		return 0, printEnvFlags(os.Environ(), o, io.out, say)
	}
	where, err := whereToRun(ctx, o, newSurroundings())
	if err != nil {
		return 0, err
	}
	say.tracef("hosts: %s", where.summary())
	plan, err := launcher.NewPlan(where.hosts, launcher.Request{NP: cmp.Or(o.np, where.np), NoOversubscribe: o.noOversubscribe})
	if err != nil {
		return 0, err
	}
	env, err := forwardEnv(os.Environ(), o)
	if err != nil {
		return 0, err
	}
	opts, err := launchOptions(o, plan, program, io, say)
	if err != nil {
		return 0, err
	}
	var notice string
	if opts.Env, notice = forContainer(program, forRanks(env.Set, o.exports), env.Exported); notice != "" {
		say.notef("%s", notice)
	}
	for _, name := range leftOut(os.Environ(), env, o) {
		os.Unsetenv(name) // ranks on this machine inherit what is left
	}
	if opts.Work != nil {
		plan.Warnings = append(plan.Warnings, opts.Work.Warnings...)
	}
	for _, w := range slices.Concat(where.warnings, plan.Warnings, env.Warnings) {
		say.warningf("%s", w)
	}
	if o.dryRun {
		_, err := fmt.Fprintf(io.out, "%vhosts      %s\n%s", plan, where.summary(), dryRunText(opts))
		return 0, err
	}
	if o.displayMap {
		say.table(plan.String())
	}
	code, err = launch(ctx, o, plan, opts, io, say)
	if code > 0 && code < launcher.CodeTimeout && len(env.Withheld) > 0 && leavesMachine(plan) {
		say.hintf("variables that look like secrets stayed here: %s (send one with -x NAME)", strings.Join(env.Withheld, ", "))
	}
	return code, err
}

// launch runs the plan while it listens to the user.
func launch(ctx context.Context, o *runOptions, plan launcher.Plan, opts launcher.Options, io streams, say *ui) (int, error) {
	wishes := listen(time.Duration(o.timeout), say)
	defer wishes.close()
	opts.Stops, opts.Signals = wishes.stops, wishes.signals
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
	steps.plan(plan, opts.Argv)
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
	say.conclude(result, plan.Size)
	if o.summary {
		say.table(summary(plan, result))
	}
	steps.result(result)
	return result.Code(), nil
}

// launchOptions is what Run needs beside the environment and the user's wishes.
func launchOptions(o *runOptions, plan launcher.Plan, program []string, io streams, say *ui) (launcher.Options, error) {
	tree, wdir, err := stagedFolder(o, o.launcher != "local" && leavesMachine(plan))
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
	opts := launcher.Options{Argv: program, Wdir: wdir, Work: tree, Network: o.network.Network, Dial: dial, Exe: exe,
		StartTimeout: time.Duration(o.startTimeout), Grace: time.Duration(o.grace),
		Note: func(text string) { say.notef("%s", text) }, Trace: say.tracef}
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

// dryRunText shows what else a run would do, values of variables left out.
func dryRunText(opts launcher.Options) string {
	var names []string
	for _, kv := range opts.Env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	network := ""
	if asked := opts.Network.String(); asked != "" {
		network = "network    " + asked + "\n"
	}
	return fmt.Sprintf("program    %q\ndirectory  %s\n%s%svariables  %s\n", opts.Argv, opts.Wdir, stagedText(opts.Work), network, strings.Join(names, " "))
}
