package resident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
	process        *os.Process
	stdin          *os.File
	stdout, stderr *later
	ended          chan struct{} // closed when end is known
	end            End
}

// startAgent starts an agent by start, which gets its standard files, and gives it a session of its
// own, so that nothing reaches it from others. It is killed when ctx ends.
func startAgent(ctx context.Context, start func(files [3]*os.File) (*os.Process, error)) (*agent, error) {
	a := &agent{
		stdout: newLater(),
		stderr: newLater(),
		ended:  make(chan struct{}),
	}
	var theirs [3]*os.File
	var outputs [2]*os.File
	var err error
	theirs[0], a.stdin, err = os.Pipe()
	for i := range outputs {
		if err == nil {
			outputs[i], theirs[1+i], err = os.Pipe()
		}
	}
	if err == nil {
		a.process, err = start(theirs)
	}
	closeAll(theirs[:]...)
	if err != nil {
		closeAll(a.stdin, outputs[0], outputs[1])
		return nil, fmt.Errorf("start an agent: %w", err)
	}
	var copying sync.WaitGroup
	for i, to := range []io.Writer{a.stdout, a.stderr} {
		copying.Go(func() { _, _ = io.Copy(to, outputs[i]) })
	}
	stop := context.AfterFunc(ctx, func() { _ = a.process.Kill() })
	go func() {
		state, err := a.process.Wait()
		stop()
		late := time.Now().Add(outputTime)
		for _, output := range outputs {
			_ = output.SetReadDeadline(late)
		}
		copying.Wait()
		closeAll(outputs[:]...)
		a.end = endOf(state, err)
		close(a.ended)
	}()
	return a, nil
}

// outputTime is how long an agent's output may be held open by others after its end.
const outputTime = 2 * time.Second

func closeAll(files ...*os.File) {
	for _, file := range files {
		file.Close() // nil for what was not opened
	}
}

// begin gives the agent its nonce, and its output a stream.
func (a *agent) begin(nonce string, to *frames.Writer) {
	a.stdout.is(to.Stream(frames.Out))
	a.stderr.is(to.Stream(frames.Err))
	_, _ = io.WriteString(a.stdin, nonce+"\n") // an agent that has ended says so by its status
}

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

func endOf(state *os.ProcessState, err error) End {
	if err != nil {
		return End{Error: fmt.Sprintf("wait for an agent: %v", err)}
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return End{Exited: true, Code: 128 + int(status.Signal())}
	}
	return End{Exited: true, Code: state.ExitCode()}
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
