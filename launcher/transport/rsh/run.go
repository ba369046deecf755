package rsh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/lookup"
)

const (
	// cancelTimeout is how long the program may take to end after SIGTERM.
	cancelTimeout = 1500 * time.Millisecond
	// drainTime is how long background processes may hold the output open, such as
	// the master of ssh's ControlPersist.
	drainTime = 2 * time.Second
	// sshFailed is the exit status of ssh for a failed connection.
	sshFailed = 255
)

// Run runs argv on the host until the program ends, and returns its exit status, which should be
// that of the command. A status other than 0 is an error with an ExitCode() int method. When ctx
// ends, Run stops the program's session and returns the cause of ctx; the remote command then loses
// its standard input. A Read that blocks on stdin may outlive Run, and its data is lost.
func (h *Host) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	args, err := h.args(argv)
	if err != nil {
		return err
	}
	program := h.config.Argv[0]
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.SysProcAttr = ownSession()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var late *time.Timer
	cmd.Cancel = func() error {
		late = time.AfterFunc(cancelTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	cmd.WaitDelay = drainTime
	// With cmd.Stdin, Wait would wait for the end of stdin.
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return lookup.Place{}.Explain(program, err)
	}
	go func() {
		if stdin != nil {
			_, _ = io.Copy(input, stdin) // ends when the caller closes stdin, or the program's end does
		}
		input.Close()
	}()
	err = cmd.Wait()
	if late != nil {
		late.Stop()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	}
	return h.ended(err)
}

// ended distinguishes the end of the program itself from that of the command, where possible.
func (h *Host) ended(err error) error {
	name := filepath.Base(h.config.Argv[0])
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return &KilledError{Program: name, Host: h.config.Host, Signal: status.Signal()}
		}
		if h.BySSH() && exit.ExitCode() == sshFailed {
			return fmt.Errorf("%s: exit status %d: its connection failed, or the command was killed", name, sshFailed)
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}
