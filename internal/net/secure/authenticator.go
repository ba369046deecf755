package secure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/retry"
)

// Authenticator authenticates single connections of one member of a group, by the handshake of an
// [Endpoint]. No member can pass for another one. It is for protocols other than the ranks': it
// keeps no connections. It is safe for concurrent use.
type Authenticator struct {
	handshaker *handshaker
	served     counts
}

// NewAuthenticator returns an authenticator of a member. Its connections have streams kinds,
// numbered from 0. The data is encrypted with own, and cert returns the fingerprint of a member's
// key, false while that is not known; it is safe for concurrent use.
func NewAuthenticator(self Identity, streams int, own *Credentials,
	cert func(rank int) (Fingerprint, bool)) (*Authenticator, error) {
	return newAuthenticator(self, streams, func(h *handshaker) {
		h.guard = Encrypted
		h.credentials = own
		h.cert = cert
	})
}

// NewPlainAuthenticator returns an authenticator whose data travels as it is. In place of the key
// of all, a member has a secret with each other one, by its number; one without is refused.
func NewPlainAuthenticator(self Identity, streams int, secrets [][]byte) (*Authenticator, error) {
	return newAuthenticator(self, streams, func(h *handshaker) {
		h.keys = func(rank int) (linkKeys, error) {
			if rank < 0 || rank >= len(secrets) || len(secrets[rank]) == 0 {
				return linkKeys{}, ErrRefused
			}
			return self.linkKeys(secrets[rank])
		}
	})
}

func newAuthenticator(self Identity, streams int, protect func(*handshaker)) (*Authenticator, error) {
	if self.Rank < 0 || self.Rank >= self.Size || streams < 1 || streams > MaxStripes {
		return nil, fmt.Errorf("member %d of %d with %d streams", self.Rank, self.Size, streams)
	}
	h, err := newHandshaker(self, streams)
	if err != nil {
		return nil, err
	}
	protect(h)
	return &Authenticator{handshaker: h, served: counts{of: map[int]int{}}}, nil
}

// ListenAll opens a port on each of addrs, by the rules of [Listen].
func ListenAll(ctx context.Context, addrs []netip.Addr) ([]net.Listener, []netip.AddrPort, error) {
	opened, err := Config{}.listenOn(ctx, addrs)
	var all []net.Listener
	var where []netip.AddrPort
	for _, l := range opened {
		all = append(all, l.TCPListener)
		where = append(where, plain(l.Addr()))
	}
	return all, where, err
}

// Reach connects to a member at its address with d, by Dial, before ctx ends. A member that refuses
// may not have heard of this one yet, or strangers may have crowded this connection out there: it
// is asked again.
func (a *Authenticator) Reach(ctx context.Context, d net.Dialer, at netip.AddrPort, to, stream int) (net.Conn, error) {
	backoff := retry.Backoff(5*time.Millisecond, 300*time.Millisecond)
	return retry.Do(ctx, func(n int, err error) (time.Duration, bool) {
		pause, _ := backoff(n, err)
		return pause, errors.Is(err, ErrRefused) || errors.Is(err, io.EOF) ||
			errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}, func(ctx context.Context) (net.Conn, error) { return a.reachOnce(ctx, d, at, to, stream) })
}

func (a *Authenticator) reachOnce(ctx context.Context, d net.Dialer, at netip.AddrPort, to, stream int) (net.Conn,
	error) {
	d.SetMultipathTCP(false)
	raw, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	conn, err := a.Dial(raw, to, stream)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// Dial authenticates a connection that this member has made to another, and returns the connection
// to use in its place. The caller sets the deadline and closes conn after an error. Encrypted
// connections must be of TCP.
func (a *Authenticator) Dial(conn net.Conn, to, stream int) (net.Conn, error) {
	shaken, err := a.wrap(conn)
	if err == nil {
		err = a.handshaker.dial(shaken, to, stream)
	}
	return inner(shaken), err
}

// Accept is Dial on the side that listened. It also returns the member that dialled, and the
// stream. A peer that does not prove its identity gets no byte.
func (a *Authenticator) Accept(conn net.Conn) (use net.Conn, from, stream int, err error) {
	shaken, err := a.wrap(conn)
	if err != nil {
		return nil, 0, 0, err
	}
	got, err := a.handshaker.accept(shaken, func(s slot) bool { return s.lane == 0 })
	return inner(shaken), got.rank, got.stripe, err
}

// wrap returns conn as the handshake needs it.
func (a *Authenticator) wrap(conn net.Conn) (net.Conn, error) {
	if a.handshaker.guard == Plain {
		return conn, nil
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil, errors.New("encrypt a connection: it is none of TCP")
	}
	return &Conn{TCPConn: tcp}, nil
}

// inner returns the stream inside the guard of a connection.
func inner(conn net.Conn) net.Conn {
	if c, is := conn.(*Conn); is && c.guard != nil {
		return c.guard.layer.(net.Conn)
	}
	return conn
}

// maxServed bounds the connections of one member that are handled at a time, on all listeners. A
// member that dials all addresses of another one side by side needs as many as there are.
const maxServed = 64

// Serve authenticates the connections that come to a listener, each within the timeout, and calls
// handle with each of them on a goroutine of its own; the connection is closed when handle returns.
// At most [admit.MaxPending] connections may be unauthenticated; the oldest is closed first. Beyond
// maxServed of a member, further ones are closed. Serve returns when the listener is closed and all
// calls have returned.
func (a *Authenticator) Serve(l net.Listener, timeout time.Duration, handle func(conn net.Conn, from, stream int)) {
	var pending admit.Pending
	pending.Serve(l, func(conn net.Conn) {
		defer conn.Close()
		use, from, stream, err := a.admit(conn, timeout)
		if known := pending.Remove(conn); known && err == nil && a.served.add(from, maxServed) {
			defer a.served.remove(from)
			handle(use, from, stream)
		}
	})
}

// counts counts connections by member. It is safe for concurrent use.
type counts struct {
	mu sync.Mutex
	of map[int]int
}

// add counts a connection of a member, unless it has most already.
func (c *counts) add(member, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[member] >= most {
		return false
	}
	c.of[member]++
	return true
}

func (c *counts) remove(member int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[member]--; c.of[member] == 0 {
		delete(c.of, member)
	}
}

func (a *Authenticator) admit(conn net.Conn, timeout time.Duration) (use net.Conn, from, stream int, err error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, 0, 0, err
	}
	if use, from, stream, err = a.Accept(conn); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return use, from, stream, err
}
