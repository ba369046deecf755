package ssh

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the connection fail when data stays unacknowledged for d. It is set on the
// open socket, because it would bound the connect too.
func setUserTimeout(conn net.Conn, d time.Duration) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	const tcpRTOMaxMS = 44
	err = raw.Control(func(fd uintptr) {
		// Otherwise the kernel doubles the interval of retransmissions and notices a restored
		// network late. Needs Linux 6.15.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, tcpRTOMaxMS, 1000)
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
