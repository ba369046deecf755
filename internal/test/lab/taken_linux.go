package lab

import (
	"testing"

	"golang.org/x/sys/unix"
)

// MostTaken calls take until it has taken all that is written to the other end of a TCP socket
// meanwhile, and returns the most that one call took.
func MostTaken(t testing.TB, fd int, write func() (sum int), take func()) (most uint64) {
	t.Helper()
	sent := make(chan uint64, 1)
	go func() { sent <- uint64(write()) }()
	total := uint64(0)
	for before := taken(t, fd); total == 0 || before < total; {
		take()
		after := taken(t, fd)
		most = max(most, after-before)
		before = after
		select {
		case total = <-sent:
		default:
		}
	}
	return most
}

// taken returns how many bytes the kernel has handed out of a TCP socket.
func taken(t testing.TB, fd int) uint64 {
	t.Helper()
	received := uint64(0)
	waiting := 0
	for {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		if info.Bytes_received == received { // nothing has come since waiting was read
			return received - uint64(waiting)
		}
		received = info.Bytes_received
		if waiting, err = unix.IoctlGetInt(fd, unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
	}
}
