package secure

import (
	"time"

	"golang.org/x/sys/unix"
)

// Silent returns an error when the network to the other end is dead.
func (c *Conn) Silent() error {
	info, err := unix.GetsockoptTCPInfo(c.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return nil // the socket's own calls will fail
	}
	return healthOf(info).verdict()
}

func healthOf(info *unix.TCPInfo) health {
	return health{
		outstanding: int(info.Unacked),
		retries:     int(info.Retransmits),
		probes:      int(info.Probes),
		lastHeard:   time.Duration(info.Last_ack_recv) * time.Millisecond,
	}
}

// Unsent returns how many bytes the kernel has not sent yet.
func (c *Conn) Unsent() int {
	n, err := unix.IoctlGetInt(c.FD, unix.SIOCOUTQNSD)
	if err != nil {
		return 0
	}
	return n
}

// Queued returns how many bytes the kernel has that the other end has not acknowledged.
func (c *Conn) Queued() int {
	n, err := unix.IoctlGetInt(c.FD, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// Look reports whether the network to the other end seems dead: data or probes were sent
// again, and nothing has come back for a while. Unlike Silent it may be wrong for a network
// that loses much. Trip is the shortest round trip so far, or 0.
func (c *Conn) Look() (stalled bool, trip time.Duration) {
	info, err := unix.GetsockoptTCPInfo(c.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false, 0
	}
	return healthOf(info).stalled(), time.Duration(info.Min_rtt) * time.Microsecond
}

// Limit makes the kernel accept data only while it has less than n unsent bytes.
func (c *Conn) Limit(n int) error {
	return unix.SetsockoptInt(c.FD, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}
