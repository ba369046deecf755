package seat

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Port is a TCP port that is reserved for a rank that will listen on it: MASTER_PORT. The
// reservation is a socket that is bound and does not listen. Until Open, nobody can bind the port.
// From then on, servers that set SO_REUSEADDR can, as PyTorch and nearly every other one does,
// whoever their user is: the kernel compares users only where both sockets set SO_REUSEPORT. Once
// one of them listens, nobody else can bind the port.
type Port struct {
	fd     int
	Number int
}

// HoldPort reserves a port on all addresses of this host. Number is 0 if none is free.
func HoldPort() Port {
	for _, any := range []unix.Sockaddr{&unix.SockaddrInet6{}, &unix.SockaddrInet4{}} {
		if p, err := bindAny(any); err == nil {
			return p
		}
	}
	return Port{fd: -1}
}

func bindAny(any unix.Sockaddr) (Port, error) {
	family := unix.AF_INET
	if _, six := any.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Port{}, err
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, any)
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return Port{}, err
	}
	p := Port{fd: fd}
	switch at := at.(type) {
	case *unix.SockaddrInet6:
		p.Number = at.Port
	case *unix.SockaddrInet4:
		p.Number = at.Port
	}
	return p, nil
}

// Open lets servers that set SO_REUSEADDR bind the port. It still keeps the kernel from handing out
// the port as a free one.
func (p *Port) Open() error {
	if p.fd < 0 {
		return nil
	}
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("let the rank bind port %d: %w", p.Number, err)
	}
	return nil
}

// Release ends the reservation.
func (p *Port) Release() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}
