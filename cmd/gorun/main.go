// Launcher and agents are idle most of the time, so the Go runtime need not
// check the container's CPU limit at start and once a second.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command gorun starts copies of a program on many machines over SSH, as ranks
// of one job, and takes them all down when one fails.
//
//	gorun -np 8 -H f1:4,f2:4 python train.py
package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/agent/inspect"
	"github.com/gorun/gorun/internal/agent/resident"
	"github.com/gorun/gorun/internal/cli/job"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/launcher"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 || args[0] != benchRank {
		keepSecrets()
	}
	if len(args) > 0 && (args[0] == launcher.AgentCommand || args[0] == serveCommand) {
		os.Exit(runAgent(args))
	}
	if len(args) > 0 && args[0] == benchRank {
		os.Exit(runBenchRank(args[1:]))
	}
	if len(args) > 0 && args[0] == inspect.Command {
		os.Exit(runInspect(args[1:]))
	}
	if len(args) > 0 && args[0] == probe.Command {
		os.Exit(runProbe(args[1:]))
	}
	if len(args) == 3 && args[0] == benchDeviceRank {
		os.Exit(runBenchDeviceRank(args[1], args[2]))
	}
	if len(args) > 0 && args[0] == job.DetachedCommand {
		os.Exit(runDetached(os.Args))
	}
	if len(args) == 2 && args[0] == resident.Command {
		os.Exit(runResident(args[1]))
	}
	os.Exit(runCLI(os.Args, os.Stdin, os.Stdout, os.Stderr, nil))
}

// keepSecrets keeps the job's key and the environment out of core files and away from other processes of the user.
// Executed programs do not inherit it, so that ranks can read each other's memory and dump core.
func keepSecrets() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
