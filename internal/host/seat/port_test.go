package seat

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestHeldPort(t *testing.T) {
	held := HoldPort()
	defer held.Release()
	must.That(t, held.Number != 0, "no port could be held")
	other := HoldPort()
	other.Release()
	check.That(t, other.Number != held.Number, "two hold port %d", held.Number)
	for _, host := range []string{"", "127.0.0.1"} {
		// it sets SO_REUSEADDR
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, held.Number)); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("before the ranks start, the port is bound on %q: %v, %v", host, l, err)
		}
	}
	must.OK(t, held.Open())
	// A server without SO_REUSEADDR is refused, and so is one on any port.
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(fd)
	check.Error(unix.Bind(fd, &unix.SockaddrInet4{Port: held.Number})).Is(t, unix.EADDRINUSE,
		"a stranger binds the port")
	for _, host := range []string{"", "127.0.0.1"} {
		if uids, err := Listeners(held.Number); err != nil || len(uids) != 0 {
			t.Errorf("users %d listen, %v", uids, err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, held.Number))
		must.OK(t, err, "its owner cannot listen on", host)
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", held.Number))
		if err != nil {
			t.Errorf("nobody can dial it: %v", err)
		} else {
			conn.Close()
		}
		if uids, err := Listeners(held.Number); err != nil || !slices.Equal(uids, []uint32{uint32(unix.Getuid())}) {
			t.Errorf("users %d listen, %v", uids, err)
		}
		l.Close()
	}
}
