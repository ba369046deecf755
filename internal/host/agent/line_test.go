package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// connect opens a connection on loopback, from port (0: any), and returns its SSH_CONNECTION.
func connect(t *testing.T, l net.Listener, from int) (client, server *net.TCPConn, sshConnection string) {
	t.Helper()
	local := &net.TCPAddr{IP: l.Addr().(*net.TCPAddr).IP, Port: from}
	c := must.Get((&net.Dialer{LocalAddr: local}).Dial("tcp", l.Addr().String()))(t)
	s := must.Get(l.Accept())(t)
	a := netip.MustParseAddrPort(c.LocalAddr().String())
	b := netip.MustParseAddrPort(l.Addr().String())
	return c.(*net.TCPConn), s.(*net.TCPConn), fmt.Sprint(a.Addr(), " ", a.Port(), " ", b.Addr(), " ", b.Port())
}

func TestConnectionIsRead(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			if ip == "::1" {
				lab.Skip(t, "no IPv6")
			}
			t.Fatal(err)
		}
		defer l.Close()
		client, server, words := connect(t, l, 0)
		defer client.Close()
		line := must.Get(openLine(words))(t)
		defer line.close()
		before := must.Get(line.read())(t)
		_, err = server.Write([]byte("beat"))
		_, err2 := client.Write([]byte("beat beat"))
		must.OK(t, errors.Join(err, err2))
		must.Until(t, "both writes to arrive", func() bool {
			r, err := line.read()
			return err == nil && r.acked == before.acked+4 && r.received == before.received+9 && r.unacked == 0
		})
		server.SetLinger(0)
		server.Close()
		must.Until(t, "the connection to go", func() bool { _, err := line.read(); return err != nil })
		client.Close()
		// The same ports again are another connection, even so.
		again, other, same := connect(t, l, client.LocalAddr().(*net.TCPAddr).Port)
		defer again.Close()
		defer other.Close()
		must.That(t, same == words, "%s is not %s", same, words)
		r, err := line.read()
		check.That(t, err != nil, "another connection with the same ports was taken for it: %+v", r)
		fresh := must.Get(openLine(same))(t)
		fresh.close()
	}
}

func TestConnectionIsNotThere(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	open := len(openFiles(t))
	for _, words := range []string{
		"", "10.0.0.1 22", "a b c d", "10.0.0.1 99999 10.0.0.2 22",
		"192.0.2.1 4711 192.0.2.2 22", "fe80::1%nowhere 4711 fe80::2%nowhere 22",
		fmt.Sprintf("127.0.0.1 1 127.0.0.1 %d", l.Addr().(*net.TCPAddr).Port), // only a listener is there
	} {
		if line, err := openLine(words); err == nil {
			line.close()
			t.Errorf("%q is a connection", words)
		}
	}
	now := len(openFiles(t))
	check.That(t, now == open, "%d files are open, %d were", now, open)
}

func openFiles(t *testing.T) []os.DirEntry { return must.Get(os.ReadDir("/proc/self/fd"))(t) }
