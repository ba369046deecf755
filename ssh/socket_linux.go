package ssh

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the kernel give the connection up when data stays
// unacknowledged for d. It is set on the open socket, since it would bound the
// connect as well.
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
		// The kernel doubles its pauses between tries, and would miss a network that is back. Kernels
		// before 6.15 do not know this.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, tcpRTOMaxMS, 1000)
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
