// Package resident is a process on a kept host that starts the agents of jobs, each as a process of
// its own with the environment, the limits and the directory that the host gave to the resident. It
// listens nowhere: its keeper reaches it by standard input and output.
package resident

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/xtaci/smux"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
)

// Command is the hidden command of a resident agent. The argument after it is the nonce that marks
// the start of its output.
const Command = "__resident"

// partingTime is how long agents have to end after their keeper has gone. Their guards end them
// sooner.
const partingTime = 30 * time.Second

// Start asks for an agent; it is the first frame of a stream.
type Start struct {
	Nonce string `json:"nonce"` // nonce of the agent
	// Preload asks for a warm interpreter for later agents instead of an agent.
	Preload *Preload `json:"preload,omitempty"`
}

// Preload is what a warm interpreter imports, and for which ranks.
type Preload struct {
	Modules []string `json:"modules"`
	Job     wire.Job `json:"job"` // a job as users will run it
}

// End is the last frame of a stream.
type End struct {
	Exited bool   `json:"exited"`
	Code   int    `json:"code"` // exit code of the agent's guard; 128+signal if one killed it
	Error  string `json:"error,omitempty"`
	// Printed is what the modules of a warm interpreter print when they are imported.
	Printed string `json:"printed,omitempty"`
}

// Config is how both ends share the connection. An agent that is not read from holds back no other,
// up to 256 of them.
func Config() *smux.Config {
	c := smux.DefaultConfig()
	c.Version = 2
	c.KeepAliveInterval = 30 * time.Second
	c.KeepAliveTimeout = 5 * time.Minute // sshd may keep a dead connection for hours
	c.MaxFrameSize = 32 << 10
	c.MaxReceiveBuffer = 64 << 20
	c.MaxStreamBuffer = 256 << 10
	return c
}

// Warm is a warm interpreter of Python.
type Warm interface {
	// StartGuard starts the guard of an agent with its standard files. The agent can fork ranks.
	StartGuard(argv []string, files [3]*os.File) (*os.Process, error)
	// Close ends the interpreter. What it has forked goes on.
	Close()
}

// Preloader starts a warm interpreter. printed is what its modules print when they are imported.
type Preloader func(ctx context.Context, p Preload) (started Warm, printed string, err error)

// Serve starts agents until in ends or ctx does. argv is the command of an agent that reads its
// nonce by [Nonce]. One agent waits for the next job, so that the job does not wait for processes
// to start.
func Serve(ctx context.Context, nonce string, in io.Reader, out io.Writer, argv []string, preload Preloader) error {
	if _, err := out.Write(wire.Preamble(nonce)); err != nil {
		return err
	}
	return serveConn(ctx, stdio{in, out}, argv, true, preload)
}

// ServeConn is Serve for a connection without a preamble, for one job: no agent waits for another.
func ServeConn(ctx context.Context, conn io.ReadWriteCloser, argv []string) error {
	return serveConn(ctx, conn, argv, false, nil)
}

func serveConn(ctx context.Context, conn io.ReadWriteCloser, argv []string, spares bool, preload Preloader) error {
	mux, err := smux.Server(conn, Config())
	if err != nil {
		return err
	}
	defer mux.Close()
	stop := context.AfterFunc(ctx, func() { mux.Close() })
	defer stop()
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // context of agents that do not end by themselves
	defer end()
	starts := newStock(life, argv, spares)
	var agents sync.WaitGroup
	for {
		stream, err := mux.AcceptStream()
		if err != nil {
			break // the keeper has gone
		}
		agents.Go(func() { serve(stream, starts, preload) })
	}
	mux.Close()
	late := time.AfterFunc(partingTime, end)
	defer late.Stop()
	agents.Wait()
	starts.close()
	return nil
}

// serve runs one agent, or starts the warm interpreter, and closes the stream.
func serve(stream io.ReadWriteCloser, starts *stock, preload Preloader) {
	to := frames.NewWriter(stream)
	kind, data, err := frames.Read(stream)
	var want Start
	if err == nil && kind != frames.Begin {
		err = fmt.Errorf("a frame of kind %d before the agent", kind)
	}
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	var a *agent
	switch {
	case err != nil:
	case want.Preload != nil && preload != nil:
		end := End{Exited: true}
		if end.Printed, err = starts.preload(*want.Preload, preload); err != nil {
			end = End{Error: err.Error()}
		}
		_ = to.SendJSON(frames.Last, end)
		stream.Close()
		return
	default:
		a, err = starts.take()
	}
	if err != nil {
		_ = to.SendJSON(frames.Last, End{Error: err.Error()})
		stream.Close()
		return
	}
	defer starts.restock()
	a.begin(want.Nonce, to)
	var input sync.WaitGroup
	input.Go(func() {
		_ = frames.Input(stream, a.stdin) // ends with the stream
		a.stdin.Close()
		stream.Close() // or output that the other end takes no more of would wait for ever
	})
	_ = to.SendJSON(frames.Last, a.wait())
	stream.Close()
	input.Wait()
}

// stdio is the stream to the keeper.
type stdio struct {
	io.Reader
	io.Writer
}

// Close does nothing: the process ends soon.
func (stdio) Close() error { return nil }
