// Package kept reaches hosts over connections that another gorun of the user keeps (gorun up).
package kept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/ssh"
)

const (
	// findTime bounds the search for keepers: their folders may be on a file system that hangs.
	findTime = time.Second
	// reachTime bounds a keeper's answer about a host. It is longer than the keeper waits for the
	// host.
	reachTime = 5 * time.Second
	maxAnswer = 64 << 10
)

// Finder finds kept hosts. It looks for keepers once. It is safe for concurrent use.
type Finder struct {
	Place control.Place // where keepers are found
	Trace func(format string, args ...any)

	look    sync.Once
	keepers []control.Keeper
}

// find looks for keepers.
func (f *Finder) find() {
	found := make(chan []control.Keeper, 1)
	go func() { // the goroutine ends with the process if the file system hangs
		all, err := f.Place.Keepers()
		if err != nil {
			f.Trace("looking for kept hosts: %v", err)
		}
		found <- all
	}()
	select {
	case f.keepers = <-found:
	case <-time.After(findTime):
		f.Trace("looking for kept hosts: no answer of the file system within %v", findTime)
	}
}

// Dial returns the host that config names if a keeper is connected to it by the same way, answers,
// and the host's key is still to be trusted; nil otherwise.
func (f *Finder) Dial(ctx context.Context, config ssh.Config) *Host {
	f.look.Do(f.find)
	if len(f.keepers) == 0 {
		return nil
	}
	identity, err := ssh.Identity(ctx, config)
	if err != nil {
		return nil // dialing returns the same error
	}
	for _, k := range f.keepers {
		switch h, err := dial(ctx, k, identity, config); {
		case err == nil:
			return h
		default:
			f.Trace("%s: not reached through %s: %v", config.Host, k.ID, err)
		}
	}
	return nil
}

func dial(ctx context.Context, k control.Keeper, identity string, config ssh.Config) (*Host, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTime, fmt.Errorf("no answer within %v", reachTime))
	defer cancel()
	var reached keep.Reached
	if err := k.Ask(ctx, "/v1/"+keep.PathReach, keep.Request{Identity: identity}, &reached, maxAnswer); err != nil {
		return nil, err
	}
	if err := ssh.CheckHostKey(ctx, config, reached.HostKey); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &Host{
		name:     config.Host,
		keeper:   k,
		identity: identity,
		reached:  reached,
		life:     life,
		end:      end,
	}, nil
}

// Host is a kept host, a session.Host. Close ends only what was started through it.
type Host struct {
	name     string
	keeper   control.Keeper
	identity string
	reached  keep.Reached
	life     context.Context
	end      context.CancelFunc
}

// Keeper returns the id of the gorun that keeps the host.
func (h *Host) Keeper() string { return h.keeper.ID }

// BySSH reports that SSH_CONNECTION on the host describes the kept connection.
func (h *Host) BySSH() bool { return true }

// LocalAddr returns this end of the kept TCP connection, or nil if another host carries it.
func (h *Host) LocalAddr() net.Addr { return address(h.reached.Local) }

// RemoteAddr returns the host's end of the kept TCP connection, or nil as LocalAddr does.
func (h *Host) RemoteAddr() net.Addr { return address(h.reached.Remote) }

func address(text string) net.Addr {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(addr)
}

// AgentBuild returns the build of the agents that the host's resident agent starts, or "" if it has
// none.
func (h *Host) AgentBuild() string { return h.reached.Build }

// RunAgent runs an agent's guard.
func (h *Host) RunAgent(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := h.do(ctx, keep.PathAgent, keep.Request{Nonce: nonce}, stdin, stdout, stderr)
	if refused, is := errors.AsType[*control.AnswerError](err); is {
		return &exitError{h.name, noResident, refused.Text}
	}
	return err
}

// noResident is the exit code for a resident agent that is gone: that of a command that is not
// found.
const noResident = 127

// Run runs a command on the host.
func (h *Host) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	return h.do(ctx, keep.PathRun, keep.Request{Argv: argv}, stdin, stdout, stderr)
}

// Put writes a file on the host.
func (h *Host) Put(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error {
	return h.do(ctx, keep.PathPut, keep.Request{Name: path, Mode: uint32(mode)}, r, nil, nil)
}

// Close ends what was started through h. The connection to the host stays.
func (h *Host) Close() error {
	h.end()
	return nil
}

// do sends a request to the keeper and carries its streams until the request, ctx or h has ended.
func (h *Host) do(ctx context.Context, path string, want keep.Request, stdin io.Reader, stdout,
	stderr io.Writer) error {
	want.Identity = h.identity
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.life, func() { cancel(net.ErrClosed) })
	defer stop()
	conn, answers, err := h.keeper.Upgrade(ctx, "/v1/"+path, want)
	if err != nil {
		return fmt.Errorf("%s: by the connection that %s keeps: %w", h.name, h.keeper.ID, err)
	}
	defer conn.Close()
	shut := context.AfterFunc(ctx, func() { conn.Close() })
	defer shut()
	// A Read that blocks goes on after do has returned, and its data is lost.
	go func() {
		if err := frames.NewWriter(conn).Feed(stdin); err != nil {
			cancel(err)
		}
	}()
	var end keep.End
	err = frames.Output(answers, stdout, stderr, &end)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", h.name, context.Cause(ctx))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &LostError{h.name, h.keeper.ID}
	case err != nil:
		return fmt.Errorf("%s: by the connection that %s keeps: %w", h.name, h.keeper.ID, err)
	case !end.Exited:
		return errors.New(prose.Printable(end.Error))
	case end.Code != 0:
		return &exitError{h.name, end.Code, prose.Printable(end.Error)}
	}
	return nil
}

// LostError reports that the keeper has ended, and the commands on its hosts with it, or that a
// host has ended its stream.
type LostError struct{ Host, Keeper string }

func (e *LostError) Error() string {
	return fmt.Sprintf("%s: %s, which kept the connection, has ended, or has lost the host", e.Host, e.Keeper)
}

// Hint returns how the next job does not depend on it.
func (e *LostError) Hint() string {
	return "gorun up keeps the hosts again; without it each job connects to them"
}

// exitError reports the exit code of a failed command.
type exitError struct {
	host string
	code int
	text string
}

func (e *exitError) Error() string {
	if e.text != "" {
		return e.text
	}
	return fmt.Sprintf("%s: exit status %d", e.host, e.code)
}

// ExitCode returns the command's exit code.
func (e *exitError) ExitCode() int { return e.code }
