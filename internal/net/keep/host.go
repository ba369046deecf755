package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/retry"
)

const (
	pingPeriod  = 5 * time.Second // period of pings on idle connections
	pingTimeout = 3 * time.Second
	// firstPause is the first delay before a lost host is dialed again. Each later one doubles
	// until a connection has lasted for longestWait: where a host breaks the protocol, something of
	// each connection stays in the SSH library.
	firstPause  = time.Second
	longestWait = time.Minute
	// sessionsPerConnection is below the limit that sshd has (MaxSessions), 10. The resident agent
	// takes one.
	sessionsPerConnection = 8
)

// Conn is a connection to a host. *ssh.Client is one.
type Conn interface {
	Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error
	Put(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error
	Ping(ctx context.Context) error
	Done() <-chan struct{}
	HostKey() []byte
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	Close() error
}

// Host is a host to keep.
type Host struct {
	Name     string
	Identity string // ssh.Identity of the route to the host
	Dial     func(ctx context.Context) (Conn, error)
	// Reside starts a resident agent on a new connection; nil, or an error: jobs start their agents
	// by commands.
	Reside func(ctx context.Context, conn Conn) (*Resident, error)
}

// line is a connection and the sessions on it.
type line struct {
	Conn
	sessions int
	resident *Resident // agent of the first connection
}

// host keeps the connections to one host. The first is redialed when it is lost; others exist while
// sessions need them.
type host struct {
	Host
	trace func(format string, args ...any)

	dialing sync.Mutex // held while dialing for take
	mu      sync.Mutex
	lines   []*line // connections, the kept one first; empty: the host is lost
	err     error   // why the host is lost
}

var errLost = errors.New("not connected now")

func (h *host) connect(ctx context.Context) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.err = err
		return err
	}
	l := &line{Conn: conn}
	if h.Reside != nil {
		if l.resident, err = h.Reside(ctx, conn); err != nil {
			h.trace("%s: no resident agent, jobs start their own by commands: %v", h.Name, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = []*line{l}
	h.err = nil
	return nil
}

// keep pings the first connection, and dials again when it is lost, until ctx ends. The host has
// been connected.
func (h *host) keep(ctx context.Context) {
	defer h.close()
	pause := firstPause
	for ctx.Err() == nil {
		if first := h.first(); first != nil {
			began := time.Now()
			h.drop(first, h.watch(ctx, first))
			if time.Since(began) >= longestWait {
				pause = firstPause
			}
			continue
		}
		if retry.Wait(ctx, pause) {
			pause = min(2*pause, longestWait)
			_, _ = retry.Do(ctx, retry.Backoff(pause, longestWait), h.reconnect)
		}
	}
}

func (h *host) reconnect(ctx context.Context) (struct{}, error) {
	err := h.connect(ctx)
	if err != nil {
		h.trace("%s: dialing again: %v", h.Name, err)
	}
	return struct{}{}, err
}

// watch returns when the connection, or ctx, has ended, with the reason.
func (h *host) watch(ctx context.Context, l *line) error {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-l.Done():
			return errors.New("the connection was lost")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := ping(ctx, l); err != nil {
				return err
			}
		}
	}
}

func ping(ctx context.Context, conn Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, fmt.Errorf("no answer within %v", pingTimeout))
	defer cancel()
	return conn.Ping(ctx)
}

func (h *host) first() *line {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		return nil
	}
	return h.lines[0]
}

// drop closes a connection, which ends the sessions on it.
func (h *host) drop(l *line, why error) {
	h.mu.Lock()
	h.lines = slices.DeleteFunc(h.lines, func(other *line) bool { return other == l })
	h.err = why
	h.mu.Unlock()
	l.close()
}

func (h *host) close() {
	for l := h.first(); l != nil; l = h.first() {
		h.drop(l, nil)
	}
}

func (l *line) close() {
	if l.resident != nil {
		l.resident.Close()
	}
	l.Close()
}

// reach checks that the host answers. A host that does not is dropped, so that the caller and the
// keeper dial it again.
func (h *host) reach(ctx context.Context) (Reached, error) {
	l := h.first()
	if l == nil {
		return Reached{}, h.lost()
	}
	if err := ping(ctx, l); err != nil {
		if ctx.Err() == nil {
			l.Close() // watch drops it
		}
		return Reached{}, fmt.Errorf("%s: %w", h.Name, err)
	}
	r := Reached{HostKey: l.HostKey(), Local: text(l.LocalAddr()), Remote: text(l.RemoteAddr())}
	if l.resident != nil && l.resident.Alive() {
		r.Build = l.resident.build
	}
	return r, nil
}

func (h *host) lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("%s is %w: %w", h.Name, errLost, h.err)
	}
	return fmt.Errorf("%s is %w", h.Name, errLost)
}

func text(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return addr.String()
}

// take returns a connection with room for a session, and the function that ends its use.
func (h *host) take(ctx context.Context) (Conn, func(), error) {
	if l, err := h.free(); l != nil || err != nil {
		return l, func() { h.release(l) }, err
	}
	h.dialing.Lock() // so that callers that wait share what others have dialed
	defer h.dialing.Unlock()
	if l, err := h.free(); l != nil || err != nil {
		return l, func() { h.release(l) }, err
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	l := &line{Conn: conn, sessions: 1}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, l)
	return l, func() { h.release(l) }, nil
}

// free returns a connection with room for a session, or nil if all are full.
func (h *host) free() (*line, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) == 0 {
		return nil, errLost
	}
	for _, l := range h.lines {
		if l.sessions < sessionsPerConnection {
			l.sessions++
			return l, nil
		}
	}
	return nil, nil
}

// release ends a session. A connection besides the first that has none is closed, also one that a
// new first connection has replaced.
func (h *host) release(l *line) {
	h.mu.Lock()
	l.sessions--
	spare := l.sessions == 0 && (len(h.lines) == 0 || l != h.lines[0])
	if spare {
		h.lines = slices.DeleteFunc(h.lines, func(other *line) bool { return other == l })
	}
	h.mu.Unlock()
	if spare {
		l.Close()
	}
}

// resident returns the host's resident agent, nil if it has none.
func (h *host) resident() *Resident {
	if l := h.first(); l != nil && l.resident != nil && l.resident.Alive() {
		return l.resident
	}
	return nil
}
