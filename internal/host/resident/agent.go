package resident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
)

// LateNonce stands in an agent's command for a nonce that comes by standard input: see [ReadNonce].
const LateNonce = "-"

// maxNonce bounds a nonce that comes by standard input, in bytes.
const maxNonce = 256

// ReadNonce reads an agent's nonce, the first line of in, and nothing behind that line. If ctx ends
// first, it returns while a Read of in goes on.
func ReadNonce(ctx context.Context, in io.Reader) (string, error) {
	var line strings.Builder
	read := make(chan error, 1)
	go func() {
		var next [1]byte
		for line.Len() <= maxNonce {
			if _, err := io.ReadFull(in, next[:]); err != nil || next[0] == '\n' {
				read <- err
				return
			}
			line.WriteByte(next[0])
		}
		read <- errors.New("it is too long")
	}()
	select {
	case err := <-read:
		if err != nil {
			return "", fmt.Errorf("read the nonce: %w", err)
		}
		return line.String(), nil
	case <-ctx.Done():
		return "", fmt.Errorf("wait for a job: %w", context.Cause(ctx))
	}
}

// agent is an agent below its guard, and waits for its nonce until begin.
type agent struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *later
	ended          chan struct{} // closed when end is known
	end            End
}

// startAgent starts a command in a session of its own, so that nothing reaches it from others. It
// is killed when ctx ends.
func startAgent(ctx context.Context, argv []string) (*agent, error) {
	a := &agent{
		cmd:    exec.CommandContext(ctx, argv[0], argv[1:]...),
		stdout: newLater(),
		stderr: newLater(),
		ended:  make(chan struct{}),
	}
	a.cmd.Stdout = a.stdout
	a.cmd.Stderr = a.stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	a.cmd.WaitDelay = 2 * time.Second
	var err error
	a.stdin, err = a.cmd.StdinPipe() // not cmd.Stdin, for whose end Wait would wait
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start an agent: %w", err)
	}
	go func() {
		a.end = endOf(a.cmd.Wait())
		close(a.ended)
	}()
	return a, nil
}

// begin gives the agent its nonce, and its output a stream.
func (a *agent) begin(nonce string, to *frames.Writer) {
	a.stdout.is(to.Stream(frames.Out))
	a.stderr.is(to.Stream(frames.Err))
	_, _ = io.WriteString(a.stdin, nonce+"\n") // an agent that has ended says so by its status
}

// wait waits for the agent's end.
func (a *agent) wait() End {
	<-a.ended
	return a.end
}

// alive reports whether the agent can begin.
func (a *agent) alive() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// dismiss ends an agent that has not begun.
func (a *agent) dismiss() {
	a.stdout.is(io.Discard)
	a.stderr.is(io.Discard)
	a.stdin.Close()
	a.wait()
}

// endOf converts the error of exec.Cmd.Wait.
func endOf(err error) End {
	var status *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return End{Exited: true}
	case errors.As(err, &status) && status.ProcessState.Sys().(syscall.WaitStatus).Signaled():
		return End{Exited: true, Code: 128 + int(status.ProcessState.Sys().(syscall.WaitStatus).Signal())}
	case errors.As(err, &status):
		return End{Exited: true, Code: status.ExitCode()}
	}
	return End{Error: fmt.Sprintf("wait for an agent: %v", err)}
}

// later is a writer that blocks until it is known where its bytes go.
type later struct {
	known chan struct{}
	to    io.Writer
}

func newLater() *later { return &later{known: make(chan struct{})} }

// is says where the bytes go, once.
func (l *later) is(to io.Writer) {
	l.to = to
	close(l.known)
}

func (l *later) Write(p []byte) (int, error) {
	<-l.known
	return l.to.Write(p)
}
