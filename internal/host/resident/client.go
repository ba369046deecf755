package resident

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/xtaci/smux"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/prose"
)

// endTime bounds the time that a host takes to take the end of a stream. Where many agents get much
// at once over a slow network it may be seconds.
const endTime = 20 * time.Second

// Client is the other end of a resident agent's connection. It is safe for concurrent use.
type Client struct {
	mux      *smux.Session
	bound    *bound
	watching sync.WaitGroup
	endTime  time.Duration // the constant; shorter in tests

	opening sync.Mutex
	last    uint32 // number of the last stream
}

// NewClient returns the client of the resident agent at the other end of conn, which it owns.
func NewClient(conn io.ReadWriteCloser) (*Client, error) {
	config := Config()
	bound := newBound(conn, config.MaxReceiveBuffer)
	mux, err := smux.Client(bound, config)
	if err != nil {
		return nil, err
	}
	c := &Client{
		mux:     mux,
		bound:   bound,
		endTime: endTime,
		last:    1,
	}
	c.watching.Go(func() {
		// the host opens none: it has ended, or breaks the protocol, which smux alone leaves open
		_, _ = mux.AcceptStream()
		mux.Close()
	})
	return c, nil
}

// Alive reports whether it can start agents.
func (c *Client) Alive() bool { return !c.mux.IsClosed() }

// Open returns a stream of package frames to a new agent. The caller closes it. It returns when ctx
// ends, even if the host does not answer: smux waits 30 s.
func (c *Client) Open(ctx context.Context) (net.Conn, error) {
	type result struct {
		stream net.Conn
		err    error
	}
	opened := make(chan result)
	go func() {
		stream, err := c.open(ctx)
		select {
		case opened <- result{stream, err}:
		case <-ctx.Done():
			if err == nil {
				stream.Close()
			}
		}
	}()
	select {
	case r := <-opened:
		return r.stream, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Client) open(ctx context.Context) (net.Conn, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if ctx.Err() != nil { // while it waited for others
		return nil, context.Cause(ctx)
	}
	c.last += 2 // as smux numbers them: data may come before OpenStream has returned
	id := c.last
	c.bound.open(id)
	stream, err := c.mux.OpenStream()
	if err != nil {
		c.bound.drop(id)
		return nil, errLost
	}
	return boundStream{stream, id, c}, nil
}

// Preload starts a warm interpreter for the agents to come. printed is what its modules print.
func (c *Client) Preload(ctx context.Context, p Preload) (printed string, err error) {
	stream, err := c.Open(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var end End
	err = unless(ctx, func() error {
		if err := frames.NewWriter(stream).SendJSON(frames.Begin, Start{Preload: &p}); err != nil {
			return err
		}
		return frames.Output(stream, io.Discard, io.Discard, &end)
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", errLost
	case !end.Exited:
		return "", errors.New(prose.Printable(end.Error))
	}
	return end.Printed, nil
}

// unless returns the error of do, or that of ctx if that ends first. Then do goes on: what it does
// with a stream may wait for a host that takes nothing.
func unless(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the resident agent and the agents that it has started.
func (c *Client) Close() {
	c.mux.Close()
	c.watching.Wait()
}

// Run runs the guard of an agent with a nonce until it has ended, or ctx. An exit status other than
// 0 is an error with an ExitCode() int method. After the end of ctx a write of output may go on.
func (c *Client) Run(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error {
	stream, err := c.Open(ctx)
	switch {
	case errors.Is(err, errLost):
		return &StatusError{noResident, err}
	case err != nil:
		return err
	}
	defer stream.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return unless(ctx, func() error { return attend(stream, nonce, stdin, stdout, stderr, cancel) })
}

// attend carries the streams of an agent until it has ended.
func attend(stream net.Conn, nonce string, stdin io.Reader, stdout, stderr io.Writer,
	unread func(error)) error {
	to := frames.NewWriter(stream)
	if err := to.SendJSON(frames.Begin, Start{Nonce: nonce}); err != nil {
		return &StatusError{noResident, errLost}
	}
	// A Read that blocks goes on after Run has returned, and its data is lost.
	go func() {
		if err := to.Feed(stdin); err != nil {
			unread(err)
		}
	}()
	var end End
	err := frames.Output(stream, stdout, stderr, &end)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe):
		return errLost
	case err != nil:
		return err
	case !end.Exited:
		return &StatusError{noResident, errors.New(prose.Printable(end.Error))}
	case end.Code != 0:
		return &StatusError{end.Code, fmt.Errorf("exit status %d", end.Code)}
	}
	return nil
}

// errLost is the error of an agent whose resident agent cannot be reached any more.
var errLost = errors.New("the connection to its resident agent was lost")

// noResident is the exit code where no agent was started: that of a command that is not found.
const noResident = 127

// StatusError is the exit code of an agent's guard.
type StatusError struct {
	Code int
	Err  error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// ExitCode returns the guard's exit code.
func (e *StatusError) ExitCode() int { return e.Code }
