package secure

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one authenticated connection to a rank. Send, Recv, Peek and Note move data
// through its guard and never wait; they fail with EAGAIN where the kernel would. A Conn
// that a rank has sends on one goroutine and receives on one, which may be the same.
type Conn struct {
	*net.TCPConn // nil after Own
	FD           int

	owned   atomic.Bool
	remote  netip.AddrPort
	guard   *guard  // nil: bytes travel as they are
	sockets Sockets // nil before the endpoint hands the connection out
}

// Own takes the socket, FD from now on, out of Go's poller, which would wake one of its threads for
// everything that arrives, also while a rank polls the socket itself.
func (c *Conn) Own() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { c.FD, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = cmp.Or(cerr, err); err != nil {
		return fmt.Errorf("duplicating the socket: %w", err)
	}
	c.remote = plain(c.RemoteAddr())
	c.owned.Store(true)
	return c.TCPConn.Close()
}

// detach ends the handshake: from now on Send and Recv move sealed data.
func (c *Conn) detach() {
	if c.guard != nil {
		c.guard.wire.detached = true
	}
}

// Remote returns the address of the other end.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// prepare sets the socket's options for use. Keepalive ends a connection that is idle
// while its network is dead for six seconds.
func (c *Conn) prepare(cfg Config) error {
	if err := c.SetNoDelay(true); err != nil {
		return err
	}
	alive := net.KeepAliveConfig{
		Enable:   true,
		Idle:     2 * time.Second,
		Interval: time.Second,
		Count:    4,
	}
	if err := c.SetKeepAliveConfig(alive); err != nil {
		return err
	}
	local := plain(c.LocalAddr()).Addr() == plain(c.RemoteAddr()).Addr()
	if err := c.Own(); err != nil {
		return err
	}
	if err := setOptions(c.FD, cfg, local); err != nil {
		return err
	}
	if c.sockets = cfg.Sockets; c.sockets != nil {
		c.sockets(c.FD, true)
	}
	return nil
}

// prepareAll prepares all conns, or closes them.
func prepareAll(conns []*Conn, cfg Config) ([]*Conn, error) {
	for _, c := range conns {
		if err := c.prepare(cfg); err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("setting up the connection: %w", err)
		}
	}
	return conns, nil
}

func closeAll(conns []*Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// Close closes the connection, once.
func (c *Conn) Close() error {
	if !c.owned.CompareAndSwap(true, false) {
		return c.TCPConn.Close()
	}
	if c.sockets != nil {
		c.sockets(c.FD, false)
	}
	return unix.Close(c.FD)
}

// Send hands the bytes in o to the kernel and returns how many it accepted.
func (c *Conn) Send(o *Outbox) (int, error) {
	if c.guard != nil {
		return c.guard.send(c.FD, o)
	}
	return o.send(c.FD)
}

// Recv receives available bytes into b. 0 bytes without an error are the end.
func (c *Conn) Recv(b []byte) (int, error) {
	if c.guard != nil {
		return c.guard.recv(c.FD, b)
	}
	return recv(c.FD, b)
}

// Peek copies the next bytes to b without consuming them.
func (c *Conn) Peek(b []byte) (int, error) {
	if c.guard != nil {
		return c.guard.peek(c.FD, b)
	}
	n, _, err := unix.Recvfrom(c.FD, b, unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return n, err
}

// Note sends a short text that no Send repeats: all of it now, or, through a guard, ahead
// of the next Send.
func (c *Conn) Note(text []byte) (int, error) {
	if c.guard != nil {
		return c.guard.note(c.FD, text)
	}
	return unix.SendmsgN(c.FD, text, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// maxDiscarded bounds one call of Discard: the other rank may send without end.
const maxDiscarded = 4 << 20 // bytes

// Discard drops received bytes below the guard: the connection receives nothing after it.
func (c *Conn) Discard(buffer []byte) {
	for dropped := 0; dropped < maxDiscarded; {
		n, err := recv(c.FD, buffer)
		if n == 0 || err != nil {
			return
		}
		dropped += n
	}
}

// Sockets reports each socket that an endpoint or its connections open, and each one
// before it closes. A forked child inherits them, and peers see no end of a connection
// while the child holds it: so the child must close them.
type Sockets func(fd int, open bool)

// report skips a socket that is closed, whose number may belong to another file now.
func (s Sockets) report(c syscall.Conn, open bool) {
	if s == nil {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { s(int(fd), open) }) // fails for a closed socket
}

// listener is one of an endpoint's listening sockets.
type listener struct {
	*net.TCPListener
	sockets Sockets
}

func (l *listener) Close() error {
	l.sockets.report(l.TCPListener, false)
	return l.TCPListener.Close()
}
