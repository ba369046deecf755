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
)

const (
	// patience is how long the program may take to end when it is asked to.
	patience = 1500 * time.Millisecond
	// drainTime is how long its output may be held open by what it left behind, such as
	// the master of ssh's ControlPersist.
	drainTime = 2 * time.Second
	// sshFailed is the exit status of ssh when the connection failed, not the command.
	sshFailed = 255
)

// Run runs argv on the host and returns when the program has ended, with its exit
// status; that of the command is the program's to pass on. A status other than 0 is an
// error with an ExitCode() int method. When ctx ends, the program is stopped with all
// that is in its session, and the cause of ctx is returned; what runs on the host then
// loses its standard input.
//
// A Read that stdin is blocked in goes on after Run; what it reads is lost.
func (h *Host) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	args, err := h.args(argv)
	if err != nil {
		return err
	}
	program := h.config.Argv[0]
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// Out of reach of the terminal's Ctrl-C and of its passwords. Should gorun be killed, so
	// is the program, whose parent is this thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var late *time.Timer
	cmd.Cancel = func() error {
		late = time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	cmd.WaitDelay = drainTime
	// Not cmd.Stdin: Wait would then wait for stdin's end.
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
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

// ended tells the end of the program itself from that of the command, where it can.
func (h *Host) ended(err error) error {
	name := filepath.Base(h.config.Argv[0])
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return &KilledError{Program: name, Host: h.config.Host, Signal: status.Signal()}
		}
		if h.BySSH() && exit.ExitCode() == sshFailed {
			return fmt.Errorf("%s: exit status %d: its connection failed, or the command was killed", name, sshFailed)
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}
