// Package tcp joins the ranks of a job by authenticated TCP connections.
package tcp

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed means that the rank at the other end is gone or has closed the link.
var ErrClosed = errors.New("connection closed")

// Link is an ordered stream of bytes to and from one other rank. Sending and
// receiving go on at the same time, so ranks that all send before they receive
// do not block each other. One goroutine may use a Link at a time; Interrupt
// may be called from any.
//
// Nothing is framed: both ends know from the collective how much comes next. In
// steady state no call allocates.
type Link struct {
	conn *net.TCPConn
	raw  syscall.RawConn

	// A send first writes what the socket takes at once, and hands the rest to
	// the sender goroutine. tryWrite is that first write; out and its results
	// are fields so that the closure is made once.
	tryWrite func(fd uintptr) bool
	out      []byte
	wrote    int

	tryRead func(fd uintptr) // the same for Pending
	in      []byte
	got     int

	rest    chan []byte // to the sender goroutine
	sent    chan error  // from it
	sending bool
	sendErr error
	ended   sync.WaitGroup
}

// NewLink takes over conn, which has proven who it is, and starts the sender.
func NewLink(conn *net.TCPConn) (*Link, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := tune(conn, raw); err != nil {
		return nil, err
	}
	l := &Link{conn: conn, raw: raw, rest: make(chan []byte), sent: make(chan error)}
	l.tryWrite = func(fd uintptr) bool {
		n, _ := unix.Write(int(fd), l.out) // full or broken: the sender goroutine finds out
		l.wrote = max(n, 0)
		return true
	}
	l.tryRead = func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), l.in, unix.MSG_DONTWAIT)
		if l.got = n; err != nil {
			l.got = 0
		}
	}
	l.ended.Go(l.send)
	return l, nil
}

// tune sets what every link needs. A network that is dead for five seconds ends
// the connection: keepalive finds it when the link is idle, TCP_USER_TIMEOUT when
// data is under way. Buffer sizes stay with the kernel, which tunes them itself.
func tune(conn *net.TCPConn, raw syscall.RawConn) error {
	if err := conn.SetNoDelay(true); err != nil {
		return err
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}
	if err := conn.SetKeepAliveConfig(alive); err != nil {
		return err
	}
	return setUserTimeout(raw, 5*time.Second)
}

func (l *Link) send() {
	for b := range l.rest {
		_, err := l.conn.Write(b)
		l.sent <- err
	}
}

// Send starts to send b, after all that was sent before it. B must stay as it is
// until Flush has returned; errors show there.
func (l *Link) Send(b []byte) {
	if len(b) == 0 || l.Flush() != nil {
		return
	}
	l.out, l.wrote = b, 0
	if err := l.raw.Write(l.tryWrite); err != nil {
		l.sendErr = err
		return
	}
	l.out = nil
	if l.wrote < len(b) {
		l.sending = true
		l.rest <- b[l.wrote:]
	}
}

// Flush waits until all that was sent is out of the caller's buffers. After an
// error it returns that error for good.
func (l *Link) Flush() error {
	if l.sending {
		l.sending = false
		if err := <-l.sent; err != nil {
			l.sendErr = err
		}
	}
	return l.sendErr
}

// Recv fills b with the next bytes from the other rank.
func (l *Link) Recv(b []byte) error {
	_, err := io.ReadFull(l.conn, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrClosed
	}
	return err
}

// Pending fills b if all of it has arrived already, even on a link that was
// interrupted. It never waits. It is for the last words of a broken link: a
// partial answer is lost.
func (l *Link) Pending(b []byte) bool {
	l.in, l.got = b, 0
	err := l.raw.Control(l.tryRead)
	l.in = nil
	return err == nil && l.got == len(b)
}

// Interrupt makes pending and later calls fail at once, for good.
func (l *Link) Interrupt() { _ = l.conn.SetDeadline(time.Unix(1, 0)) }

// Close ends the link and its goroutine. The other rank still gets what was
// flushed. Call it once, when no other call is running.
func (l *Link) Close() error {
	l.Interrupt()
	err := l.Flush()
	close(l.rest)
	l.ended.Wait()
	if cerr := l.conn.Close(); err == nil {
		err = cerr
	}
	return err
}
