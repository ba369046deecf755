package tcp

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is how long a wait for another rank lasts before the network to it is looked
// at.
const tick = time.Second / 4

// link is the connections to one rank, by stripe.
type link struct {
	rank    int
	sockets []socket
	noted   uint64 // the flow during which a note was last sent: see doubt.go
	held    Sockets
}

// socket is a connection that is read and written by its descriptor. The runtime
// waits for it when there is nothing else to wait for.
type socket struct {
	conn  *net.TCPConn
	raw   syscall.RawConn
	fd    int
	guard *guard // nil: bytes travel as they are
}

// newLink makes a link of conns, which have proven who they are. On error it closes
// them.
func newLink(rank int, conns []*line, cfg Config) (*link, error) {
	l := &link{rank: rank, held: cfg.Sockets}
	for _, conn := range conns {
		s, err := newSocket(conn, cfg)
		if err != nil {
			for i := range l.sockets {
				cfg.Sockets.tell(l.sockets[i].conn, false)
			}
			closeAll(conns)
			return nil, fmt.Errorf("setting up the connection: %w", err)
		}
		l.sockets = append(l.sockets, s)
		cfg.Sockets.tell(s.conn, true)
	}
	return l, nil
}

func newSocket(from *line, cfg Config) (socket, error) {
	conn := from.TCPConn
	raw, err := conn.SyscallConn()
	if err != nil {
		return socket{}, err
	}
	s := socket{conn: conn, raw: raw, guard: from.guard}
	if err := s.tune(); err != nil {
		return socket{}, err
	}
	here := plain(conn.LocalAddr()).Addr() == plain(conn.RemoteAddr()).Addr()
	cerr := raw.Control(func(fd uintptr) {
		s.fd = int(fd)
		err = setOptions(s.fd, cfg, here)
	})
	if cerr != nil {
		err = cerr
	}
	return s, err
}

// tune sets what every connection needs. Keepalive ends one that is idle while its
// network is dead for six seconds; [stream.look] does when data is under way.
func (s *socket) tune() error {
	if err := s.conn.SetNoDelay(true); err != nil {
		return err
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 4}
	if err := s.conn.SetKeepAliveConfig(alive); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Now().Add(tick))
}

// send hands what is in o to the kernel, as far as it takes it at once.
func (s *socket) send(o *outbox) (int, error) {
	if s.guard != nil {
		return s.guard.send(s.fd, o)
	}
	return o.send(s.fd)
}

// recv takes what is there, or fails with EAGAIN. 0 bytes are the end.
func (s *socket) recv(b []byte) (int, error) {
	if s.guard != nil {
		return s.guard.recv(s.fd, b)
	}
	return recv(s.fd, b)
}

// peek shows in b what comes next, and leaves it there.
func (s *socket) peek(b []byte) (int, error) {
	if s.guard != nil {
		return s.guard.peek(s.fd, b)
	}
	n, _, err := unix.Recvfrom(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return n, err
}

// note sends a few bytes at once or not at all.
func (s *socket) note(text []byte) (int, error) {
	if s.guard != nil {
		return s.guard.note(s.fd, text)
	}
	return unix.SendmsgN(s.fd, text, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// wake ends all waits for this link: those to receive, and by the deadline those to
// send. What has come can still be read, and the other rank sees nothing of it.
func (l *link) wake() {
	for i := range l.sockets {
		_ = unix.Shutdown(l.sockets[i].fd, unix.SHUT_RD)
		_ = l.sockets[i].conn.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (l *link) close() error {
	var first error
	for i := range l.sockets {
		l.held.tell(l.sockets[i].conn, false)
		if err := l.sockets[i].conn.Close(); err != nil && first == nil {
			first = fmt.Errorf("closing the link to rank %d: %w", l.rank, err)
		}
	}
	return first
}
