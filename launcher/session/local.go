package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
)

// Local is this machine as a Host, without SSH.
type Local struct{}

// killTime is how long the output of a process that was killed may stay open. A process below it,
// such as an agent that waits for a file system, may not end.
const killTime = 5 * time.Second

// Run runs argv in a new session, so that a Ctrl-C at the terminal
// reaches the launcher only. It returns when the process has ended, also while stdin has not, and
// soon after ctx.
func (Local) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Not cmd.Stdin: Wait would then wait for stdin's end.
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(input, stdin) // ends when the caller closes stdin, or the process's end does
		input.Close()
	}()
	// Not cmd.WaitDelay: it would cut the output of a process that has ended while its reader is
	// held up.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case <-ended:
		case <-time.After(killTime):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Put writes a file, in whole or not at all.
func (Local) Put(_ context.Context, path string, mode fs.FileMode, r io.Reader) error {
	if err := trust.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".gorun-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, r)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// Close does nothing.
func (Local) Close() error { return nil }
