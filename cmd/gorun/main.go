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

	"github.com/gorun/gorun/cmd/gorun/internal/job"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 || args[0] != benchRank {
		keepSecrets()
	}
	if code, ran := runOnHost(args); ran {
		os.Exit(code)
	}
	if len(args) > 0 && args[0] == benchRank {
		os.Exit(runBenchRank(args[1:]))
	}
	if len(args) == 3 && args[0] == benchDeviceRank {
		os.Exit(runBenchDeviceRank(args[1], args[2]))
	}
	if len(args) > 0 && args[0] == job.DetachedCommand {
		os.Exit(runDetached(os.Args))
	}
	os.Exit(runCLI(os.Args, os.Stdin, os.Stdout, os.Stderr, nil))
}
