package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/internal/agent/inspect"
	"github.com/gorun/gorun/internal/agent/resident"
	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/job"
	"github.com/gorun/gorun/internal/cli/sibling"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/transport/srun"
	"github.com/gorun/gorun/launcher"
)

// serveCommand is the hidden command of the agent, which the guard starts with a nonce and its own name.
const serveCommand = "__serve"

// runAgent runs the guard, or the agent that it starts.
func runAgent(args []string) int {
	if want := map[string]int{launcher.AgentCommand: 2, serveCommand: 3}; len(args) != want[args[0]] {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return exitcode.Usage
	}
	// Signals are caught, not ignored, since ranks inherit ignored ones. SIGPIPE comes when the launcher is lost,
	// which must not end the agent before the ranks.
	// Slurm sends USR1 and USR2 to all processes of a step, so the ranks get them directly.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	for _, name := range srun.AgentsStep(os.Environ()) {
		os.Unsetenv(name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if args[0] == launcher.AgentCommand {
		runtime.GOMAXPROCS(1) // it only waits
		code, err := agent.Guard(ctx, agent.GuardOptions{Argv: []string{"/proc/self/exe", serveCommand, args[1]}})
		return agentCode(code, err)
	}
	build, err := agent.Build("/proc/self/exe")
	if err == nil {
		err = agent.Serve(ctx, os.Stdin, os.Stdout, agent.Options{Nonce: args[1], Build: build, Guard: args[2]})
	}
	return agentCode(0, err)
}

func agentCode(code int, err error) int {
	if err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, "gorun agent:", err)
	if code == 0 {
		code = exitcode.Launch
	}
	return code
}

// runResident runs a resident agent, whose output nonce begins.
func runResident(nonce string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // the keeper may go before the agents have ended
	return agentCode(0, resident.Serve(ctx, nonce, os.Stdin, os.Stdout, func(agent string) []string {
		return []string{"/proc/self/exe", launcher.AgentCommand, agent}
	}))
}

// runDetached runs a detached job. Its argv is the user's, with the hidden command as the first argument.
func runDetached(argv []string) int {
	const pipe = 3
	unix.CloseOnExec(pipe) // ranks must not hold it
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun: error:", err)
		return exitcode.Launch
	}
	return runCLI(slices.Concat(argv[:1], argv[2:]), null, null, os.Stderr, os.NewFile(pipe, "pipe"))
}

// detach starts a detached job and prints its id when its ranks run.
func detach(argv []string, out io.Writer, console *ui.UI) (code int, err error) {
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(caught)
	id, code, err := job.Detach(argv, os.Stderr, caught)
	if err != nil || id == "" {
		return code, err
	}
	console.Notef("the job runs in the background: gorun logs -f %s shows its output, gorun attach %s takes it back", id, id)
	_, err = fmt.Fprintln(out, id)
	return 0, err
}

// runInspect looks at the processes of a host's ranks for their agent.
func runInspect(args []string) int {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	err := inspect.Main(context.Background(), args, out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		return exitcode.Launch
	}
	return 0
}

// runProbe measures this host for gorun doctor.
func runProbe(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if err := probe.Main(ctx, args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun doctor:", err)
		return exitcode.Launch
	}
	return 0
}

// benchRank is the hidden command that runs one rank of a benchmark.
const benchRank = "__bench"

// runBenchRank runs one rank of a benchmark. Its argument is a bench.Options as JSON.
func runBenchRank(args []string) int {
	if err := bench.Rank(context.Background(), args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		return 1
	}
	return 0
}

// benchDeviceRank is the hidden command that runs one rank of a benchmark of GPUs.
const benchDeviceRank = "__bench-device"

// runBenchDeviceRank becomes the gorun-bench at path, with the options. Every host has its own, and checks that no other user has put it there.
func runBenchDeviceRank(path, options string) int {
	program, err := sibling.Path(path, filepath.Base(path))
	if err == nil {
		err = syscall.Exec(program, []string{program, options}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "gorun bench: --device cuda:", err)
	return exitcode.Launch
}
