package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
)

// endTime bounds the command of --on-end.
const endTime = time.Minute

// endCommand runs the command of --on-end. It changes no exit code.
type endCommand struct {
	*run

	id    string // id of the job, or ""
	began time.Time
}

func (*endCommand) Event(launcher.Event) {}

// End waits for the command. A job that did not start has an end, too.
func (c *endCommand) End(end ui.Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.o.OnEnd)
	cmd.Env = append(os.Environ(),
		"GORUN_END_JOB="+c.id,
		"GORUN_END_NAME="+c.o.Control.Name,
		"GORUN_END_CODE="+strconv.Itoa(end.Code()),
		"GORUN_END_CAUSE="+prose.Printable(end.Reason()),
		fmt.Sprintf("GORUN_END_SECONDS=%.1f", time.Since(c.began).Seconds()))
	cmd.Stdout = c.io.Err
	cmd.Stderr = c.io.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		c.console.Warningf("--on-end: the command was killed, as it ran for longer than %v", endTime)
	case errors.Is(err, exec.ErrWaitDelay): // a process that it started keeps its output open
	case err != nil:
		c.console.Warningf("--on-end: the command failed: %v", err)
	}
}

func (*endCommand) Close() {}
