package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/agent"
	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/inventory"
	"github.com/gorun/gorun/internal/transport/srun"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher"
)

// serveCommand is the first argument of the agent proper, which its guard
// starts; the nonce and the guard's name are next.
const serveCommand = "__serve"

// runAgent is gorun on a host: the guard, or the agent that it guards.
func runAgent(args []string) int {
	if want := map[string]int{launcher.AgentCommand: 2, serveCommand: 3}; len(args) != want[args[0]] {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return 2
	}
	// Not ignored but caught, so that ranks start with the default: a launcher
	// that is gone must not kill us before the ranks are.
	// Slurm sends a step's USR1 and USR2 to all of its processes: the ranks get them without us.
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
		code = launcher.CodeLaunch
	}
	return code
}

// runStage is gorun on a host that takes a folder for --stage.
func runStage(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return 2
	}
	build, err := agent.Build("/proc/self/exe")
	var home string
	if err == nil {
		home, err = os.UserHomeDir()
	}
	if err == nil {
		err = workdir.Serve(leased{os.Stdin}, os.Stdout, workdir.Options{Nonce: args[1], Build: build, Home: home})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		return launcher.CodeLaunch
	}
	return 0
}

// leased is standard input whose other end must not fall silent: a launcher that was cut off never closes it.
type leased struct{ in io.Reader }

func (l leased) Read(p []byte) (int, error) {
	silence := time.AfterFunc(agent.Lease, func() {
		fmt.Fprintf(os.Stderr, "gorun: no word from the launcher for %v\n", agent.Lease)
		os.Exit(launcher.CodeLaunch)
	})
	defer silence.Stop()
	return l.in.Read(p)
}

// benchRank is the first argument that makes gorun one rank of a benchmark.
const benchRank = "__bench"

// runBenchRank is one rank: its only argument are the bench.Options, as JSON.
func runBenchRank(args []string) int {
	if err := bench.Rank(context.Background(), args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		return 1
	}
	return 0
}

// runInventory is gorun on a host that tells of its GPUs.
func runInventory(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	build, err := agent.Build("/proc/self/exe")
	if err == nil {
		err = inventory.Serve(ctx, leased{os.Stdin}, os.Stdout, inventory.Options{Nonce: args[1], Build: build, Sources: gpu.Machine("")})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun:", err)
		return launcher.CodeLaunch
	}
	return 0
}
