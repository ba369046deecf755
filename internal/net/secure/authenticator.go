package secure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
)

// Authenticator authenticates single connections of one member of a group whose members share a
// key, by the handshake of an [Endpoint]. It is for protocols other than the ranks': it keeps no
// connections and retries nothing. It is safe for concurrent use.
type Authenticator struct {
	handshaker *handshaker
	served     counts
}

// NewAuthenticator returns an authenticator of a member. Its connections have streams kinds,
// numbered from 0. With own credentials the data is encrypted, and cert returns the fingerprint of
// a member's key, false while that is not known; it is safe for concurrent use. Without, the data
// travels as it is.
func NewAuthenticator(self Identity, streams int, own *Credentials,
	cert func(rank int) (Fingerprint, bool)) (*Authenticator, error) {
	if self.Rank < 0 || self.Rank >= self.Size || streams < 1 || streams > MaxStripes {
		return nil, fmt.Errorf("member %d of %d with %d streams", self.Rank, self.Size, streams)
	}
	h, err := newHandshaker(self, streams)
	if err != nil {
		return nil, err
	}
	if own != nil {
		h.guard = Encrypted
		h.credentials = own
		h.cert = cert
	}
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
