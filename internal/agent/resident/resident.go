// Package resident is a process on a kept host that starts the agents of jobs, each as a process of its own with the environment, the limits
// and the directory that the host gave to the resident. It listens nowhere: its keeper reaches it by standard input and output.
package resident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/xtaci/smux"

	"github.com/gorun/gorun/internal/frames"
	"github.com/gorun/gorun/internal/wire"
)

// Command is the hidden command of a resident agent. The argument after it is the nonce that marks the start of its output.
const Command = "__resident"

// partingTime is how long agents have to end after their keeper has gone. Their guards end them sooner.
const partingTime = 30 * time.Second

// Start asks for an agent; it is the first frame of a stream.
type Start struct {
	Nonce string `json:"nonce"` // of the agent
}

// End is the last frame of a stream.
type End struct {
	Exited bool   `json:"exited"`
	Code   int    `json:"code"` // of the agent's guard: 128+signal if one killed it
	Error  string `json:"error,omitempty"`
}

// Config is how both ends share the connection. An agent that is not read from holds back no other, up to 256 of them.
func Config() *smux.Config {
	c := smux.DefaultConfig()
	c.Version, c.KeepAliveInterval, c.KeepAliveTimeout = 2, 30*time.Second, 5*time.Minute // sshd may keep a dead connection for hours
	c.MaxFrameSize, c.MaxReceiveBuffer, c.MaxStreamBuffer = 32<<10, 64<<20, 256<<10
	return c
}

// Serve starts agents until in ends or ctx does. argv returns the command of an agent with a nonce.
func Serve(ctx context.Context, nonce string, in io.Reader, out io.Writer, argv func(nonce string) []string) error {
	if _, err := out.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	return ServeConn(ctx, stdio{in, out}, argv)
}

// ServeConn is Serve for a connection without a preamble.
func ServeConn(ctx context.Context, conn io.ReadWriteCloser, argv func(nonce string) []string) error {
	mux, err := smux.Server(conn, Config())
	if err != nil {
		return err
	}
	defer mux.Close()
	stop := context.AfterFunc(ctx, func() { mux.Close() })
	defer stop()
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // of agents that do not end by themselves
	defer end()
	var agents sync.WaitGroup
	for {
		stream, err := mux.AcceptStream()
		if err != nil {
			break // the keeper has gone
		}
		agents.Go(func() { serve(life, stream, argv) })
	}
	mux.Close()
	late := time.AfterFunc(partingTime, end)
	defer late.Stop()
	agents.Wait()
	return nil
}

// serve runs one agent, and closes its stream.
func serve(ctx context.Context, stream io.ReadWriteCloser, argv func(nonce string) []string) {
	to := frames.NewWriter(stream)
	kind, data, err := frames.Read(stream)
	var want Start
	if err == nil && kind != frames.Begin {
		err = fmt.Errorf("a frame of kind %d before the agent", kind)
	}
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		_ = to.SendJSON(frames.Last, End{Error: err.Error()})
		stream.Close()
		return
	}
	var input sync.WaitGroup
	_ = to.SendJSON(frames.Last, run(ctx, argv(want.Nonce), func(stdin io.WriteCloser) {
		input.Go(func() {
			_ = frames.Input(stream, stdin) // ends with the stream
			stdin.Close()
		})
	}, to))
	stream.Close()
	input.Wait()
}

// run starts a command in a session of its own, so that nothing reaches it from others, and waits for its end. feed gets its standard input.
func run(ctx context.Context, argv []string, feed func(io.WriteCloser), to *frames.Writer) End {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = to.Stream(frames.Out), to.Stream(frames.Err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 2 * time.Second
	stdin, err := cmd.StdinPipe() // not cmd.Stdin, for whose end Wait would wait
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return End{Error: fmt.Sprintf("start an agent: %v", err)}
	}
	feed(stdin)
	err = cmd.Wait()
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

// stdio is the stream to the keeper.
type stdio struct {
	io.Reader
	io.Writer
}

// Close does nothing: the process ends soon.
func (stdio) Close() error { return nil }
