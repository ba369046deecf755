package bench

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// congestion gives a socket the congestion control that ring's have.
func congestion(local bool) func(_, _ string, raw syscall.RawConn) error {
	name := os.Getenv("RING_CONGESTION")
	if name == "" && local {
		name = "reno"
	}
	return func(_, _ string, raw syscall.RawConn) (err error) {
		if name == "" {
			return nil
		}
		cerr := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		})
		return errors.Join(cerr, err)
	}
}
