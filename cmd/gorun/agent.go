package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/gorun/gorun/internal/agent"
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
	for _, name := range agentsStep(os.Environ()) {
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
