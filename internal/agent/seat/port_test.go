package seat

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHeldPort(t *testing.T) {
	held := HoldPort()
	defer held.Release()
	if held.Number == 0 {
		t.Fatal("no port could be held")
	}
	other := HoldPort()
	other.Release()
	if other.Number == held.Number {
		t.Errorf("two hold port %d", held.Number)
	}
	// A listener without SO_REUSEPORT is refused, and so is one on any port.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: held.Number}); err != unix.EADDRINUSE {
		t.Errorf("a stranger binds the port: %v", err)
	}
	for _, host := range []string{"", "127.0.0.1"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, held.Number)) // it sets SO_REUSEADDR
		if err != nil {
			t.Fatalf("its owner cannot listen on %q: %v", host, err)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", held.Number))
		if err != nil {
			t.Errorf("nobody can dial it: %v", err)
		} else {
			conn.Close()
		}
		l.Close()
	}
}
