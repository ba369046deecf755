package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/job"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/bench"
)

// runDetached runs a detached job. Its argv is the user's, with the hidden command as the first
// argument.
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
	console.Notef("the job runs in the background: gorun logs -f %s shows its output, gorun attach %s takes it back",
		id, id)
	_, err = fmt.Fprintln(out, id)
	return 0, err
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

// runBenchDeviceRank replaces this process by the gorun-bench at path. Each host has its own, and
// checks that no other user has put it there.
func runBenchDeviceRank(path, options string) int {
	program, err := installed.Path(path, filepath.Base(path))
	if err == nil {
		err = syscall.Exec(program, []string{program, options}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "gorun bench: --device cuda:", err)
	return exitcode.Launch
}
