package gloo

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// port is a listener that omits system calls of package net that a connection for one request does
// not need.
type port struct {
	file *os.File
	raw  syscall.RawConn
	addr net.Addr
}

func lean(listener net.Listener) (net.Listener, error) {
	defer listener.Close() // the file is the same socket
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &port{file, raw, listener.Addr()}, nil
}

func (p *port) Addr() net.Addr { return p.addr }
func (p *port) Close() error   { return p.file.Close() }

func (p *port) Accept() (net.Conn, error) {
	var fd int
	var from syscall.Sockaddr
	var failed error
	if err := p.raw.Read(func(port uintptr) bool {
		// unix.Accept4 also queries the protocol
		fd, from, failed = syscall.Accept4(int(port), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return failed != syscall.EAGAIN
	}); err != nil {
		return nil, net.ErrClosed // the only error, since there is no deadline
	}
	if failed != nil {
		return nil, os.NewSyscallError("accept4", failed)
	}
	c := &conn{fd: fd, local: p.addr}
	if peer, is := from.(*syscall.SockaddrInet4); is {
		c.remote = net.TCPAddr{IP: peer.Addr[:], Port: peer.Port}
	}
	return c, nil
}

// conn is a connection that is registered with Go's poller only when it must wait.
type conn struct {
	fd     int
	polled *os.File // replaces fd once registered
	local  net.Addr
	remote net.TCPAddr
	limit  time.Time
	wait   func()
}

func (c *conn) beforeWait(wait func()) { c.wait = wait }

// poll registers c with the poller.
func (c *conn) poll() error {
	c.wait()
	c.polled = os.NewFile(uintptr(c.fd), "rank")
	return c.polled.SetDeadline(c.limit)
}

func (c *conn) Read(b []byte) (int, error) {
	if c.polled == nil {
		switch n, err := unix.Read(c.fd, b); {
		case err == nil && n == 0 && len(b) > 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err != unix.EAGAIN && err != unix.EINTR:
			return 0, err
		}
		if err := c.poll(); err != nil {
			return 0, err
		}
	}
	return c.polled.Read(b)
}

func (c *conn) Write(b []byte) (n int, err error) {
	if c.polled == nil {
		n, err = unix.Write(c.fd, b)
		if n = max(n, 0); err != nil && err != unix.EAGAIN && err != unix.EINTR || n == len(b) {
			return n, err
		}
		if err := c.poll(); err != nil {
			return n, err
		}
	}
	rest, err := c.polled.Write(b[n:])
	return n + rest, err
}

func (c *conn) Close() error {
	if c.polled != nil {
		return c.polled.Close()
	}
	return unix.Close(c.fd)
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return &c.remote }

// SyscallConn returns the socket, for options only.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return socketOf{c}, nil }

// socketOf is the socket of a connection, for calls that neither read nor write.
type socketOf struct{ c *conn }

func (s socketOf) Control(f func(fd uintptr)) error {
	if s.c.polled == nil {
		f(uintptr(s.c.fd))
		return nil
	}
	raw, err := s.c.polled.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}

func (socketOf) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (socketOf) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// SetDeadline is for reads and writes alike.
func (c *conn) SetDeadline(t time.Time) error {
	if c.limit = t; c.polled != nil {
		return c.polled.SetDeadline(t)
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.SetDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }
