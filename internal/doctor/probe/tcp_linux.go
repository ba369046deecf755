package probe

import (
	"net"

	"golang.org/x/sys/unix"
)

// segments returns how many segments of data a connection has sent, how many of them again, and the
// path MTU.
func segments(conn net.Conn) (sent, resent int64, mtu int) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, 0, 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, 0, 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			sent = int64(info.Data_segs_out)
			resent = int64(info.Total_retrans)
			mtu = int(info.Pmtu)
		}
	})
	return sent, resent, mtu
}
