package secure

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// localCongestion is the congestion control between ranks of one host. Nothing is lost
// there, so the simplest is fastest; bbr, a common default, would pace its data.
const localCongestion = "reno"

// control returns a function that sets the congestion control of a new socket before it
// connects or listens: a socket that had bbr keeps its pacing. local means that the other
// end is on this host.
func (c Config) control(local bool) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var err error
		cerr := raw.Control(func(fd uintptr) { err = c.setCongestion(int(fd), local) })
		if cerr != nil {
			return cerr
		}
		return err
	}
}

func (c Config) setCongestion(fd int, local bool) error {
	if c.Congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, c.Congestion); err != nil {
			return fmt.Errorf("TCP congestion control %q: %w (see net.ipv4.tcp_allowed_congestion_control)",
				c.Congestion, err)
		}
	} else if local {
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, localCongestion)
	}
	return nil
}

// rtoMax bounds the kernel's wait before it retransmits or probes a full receiver, in milliseconds.
// It allows enough retries for package tcp to detect a dead network within six seconds, and to
// notice a restored one soon.
const rtoMax = 1000

// setOptions sets options that only Linux has. Kernels before 6.15 lack rtoMax and, after
// a long stall, detect a dead network later.
func setOptions(fd int, c Config, local bool) error {
	const tcpRTOMaxMS = 44
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, tcpRTOMaxMS, rtoMax)
	return c.setCongestion(fd, local)
}
