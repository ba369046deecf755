package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/host/agent"
	"github.com/gorun/gorun/internal/host/inspect"
	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/host/warm"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/transport/srun"
)

// runOnHost runs a hidden command of the agent's side, if args name one.
func runOnHost(args []string) (code int, ran bool) {
	switch {
	case len(args) == 0:
		return 0, false
	case args[0] == launcher.AgentCommand || args[0] == serveCommand:
		return runAgent(args), true
	case len(args) == 2 && args[0] == resident.Command:
		return runResident(args[1]), true
	case args[0] == srun.Command:
		return runStep(), true
	case args[0] == inspect.Command:
		return runInspect(args[1:]), true
	case args[0] == probe.Command:
		return runProbe(args[1:]), true
	}
	return 0, false
}

// serveCommand is the hidden command of the agent, which the guard starts with a nonce and its own
// name.
const serveCommand = "__serve"

// runAgent runs the guard, or the agent that it starts.
func runAgent(args []string) int {
	want := map[string]int{launcher.AgentCommand: 2, serveCommand: 3}[args[0]]
	if len(args) != want && len(args) != want+1 {
		fmt.Fprintln(os.Stderr, "gorun: this command is internal to gorun")
		return exitcode.Usage
	}
	// Signals are caught, not ignored, since ranks inherit ignored ones. SIGPIPE comes when the
	// launcher is lost, which must not end the agent before the ranks. Slurm sends USR1 and USR2 to
	// all processes of a step, so the ranks get them directly.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	for _, name := range rankenv.OfAgentsStep(os.Environ()) {
		os.Unsetenv(name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	var below *warm.Below // named by the last word
	if len(args) > want {
		var err error
		if below, err = warm.Find(args[want]); err != nil {
			return agentCode(0, err)
		}
	}
	if args[0] == launcher.AgentCommand {
		runtime.GOMAXPROCS(1) // the guard only waits
		argv := []string{"/proc/self/exe", serveCommand, args[1]}
		return agentCode(agent.Guard(ctx, agent.GuardOptions{Argv: argv, Warm: below}))
	}
	build, err := buildid.Of("/proc/self/exe")
	nonce := args[1]
	if err == nil && nonce == resident.LateNonce {
		nonce, err = resident.ReadNonce(ctx, os.Stdin)
	}
	if err == nil {
		err = agent.Serve(ctx, os.Stdin, os.Stdout, agent.Options{
			Nonce: nonce,
			Build: build,
			Guard: args[2],
			Warm:  below,
		})
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

// runResident runs a resident agent, whose output begins with nonce.
func runResident(nonce string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // the keeper may end before the agents
	return agentCode(0, resident.Serve(ctx, nonce, os.Stdin, os.Stdout, residentsAgent(), preload))
}

// preload is a [resident.Preloader].
func preload(ctx context.Context, p resident.Preload) (resident.Warm, string, error) {
	return agent.Preload(ctx, p.Job, p.Modules)
}

// residentsAgent returns the command of an agent that a resident agent starts.
func residentsAgent() []string {
	return []string{"/proc/self/exe", launcher.AgentCommand, resident.LateNonce}
}

// runStep runs a node's process in a Slurm step, which starts agents. Slurm's signals reach the
// agents directly, so the process ends only with the launcher's connection.
func runStep() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
		syscall.SIGINT, syscall.SIGHUP)
	build, err := buildid.Of("/proc/self/exe")
	if err == nil {
		err = srun.Reside(context.Background(), os.Stdin, build, os.LookupEnv, residentsAgent())
	}
	var unreached interface{ ExitCode() int }
	if errors.As(err, &unreached) {
		return agentCode(unreached.ExitCode(), err)
	}
	return agentCode(0, err)
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

// keepSecrets keeps the job's key and the environment out of core files and away from other
// processes of the user. Executed programs do not inherit it, so that ranks can read each other's
// memory and dump core.
func keepSecrets() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
