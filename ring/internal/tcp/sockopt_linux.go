package tcp

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// local is the congestion control between ranks of one host. Nothing is lost there,
// so the simplest does best: bbr, which many hosts have as their default, costs 15
// to 20 percent by pacing what it sends.
const local = "reno"

// control returns what is to be done with a new socket before it connects or
// listens, which is when congestion control is best chosen: bbr leaves pacing
// behind. Here says that the other end is on this host as well.
func (c Config) control(here bool) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var err error
		cerr := raw.Control(func(fd uintptr) { err = c.setCongestion(int(fd), here) })
		if cerr != nil {
			return cerr
		}
		return err
	}
}

func (c Config) setCongestion(fd int, here bool) error {
	if c.Congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, c.Congestion); err != nil {
			return fmt.Errorf("TCP congestion control %q: %w (see net.ipv4.tcp_allowed_congestion_control)", c.Congestion, err)
		}
	} else if here {
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, local)
	}
	return nil
}

// rtoMax bounds how long the kernel waits before it sends again, or looks again
// whether a full receiver has room, in milliseconds. So it has tried often enough to
// tell a dead network within [silence], and soon notices that a network is back. The
// kernel itself may give up after twice as long.
const rtoMax = 1000

// setOptions sets what only Linux has. Kernels before 6.15 know no rtoMax: there,
// after a long stall, a dead network is found later.
func setOptions(fd int, c Config, here bool) error {
	const tcpRTOMaxMS = 44
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, tcpRTOMaxMS, rtoMax)
	return c.setCongestion(fd, here)
}
