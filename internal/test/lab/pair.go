package lab

import (
	"net"
	"testing"
)

// TCPPair returns both ends of a TCP connection on this machine. They are closed with the test.
func TCPPair(t testing.TB) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dialed, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed, accepted
}
