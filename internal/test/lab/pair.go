package lab

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TCPPair returns both ends of a TCP connection on this machine. They are closed with the test.
// What the dialed end sends comes in segments as on Ethernet: with those of the loopback interface,
// of 64 KiB, a socket that is full is often empty before more comes.
func TCPPair(t testing.TB) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1460)
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dialed = conn.(*net.TCPConn)
	t.Cleanup(func() { dialed.Close() })
	if accepted, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed, accepted
}
