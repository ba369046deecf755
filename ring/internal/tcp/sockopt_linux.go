package tcp

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long sent data may stay unacknowledged. The kernel
// counts the time for which a receiver keeps its window shut as well, so a rank
// must not push data to one that is not reading: that is why a collective starts
// only when all ranks have entered it.
func setUserTimeout(raw syscall.RawConn, d time.Duration) error {
	var err error
	cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if cerr != nil {
		return cerr
	}
	return err
}
