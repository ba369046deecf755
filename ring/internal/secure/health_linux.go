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
	return health{
		outstanding: int(info.Unacked),
		retries:     int(info.Retransmits),
		probes:      int(info.Probes),
		lastHeard:   time.Duration(info.Last_ack_recv) * time.Millisecond,
	}.verdict()
}

// Unsent returns how many bytes the kernel has not sent yet.
func (c *Conn) Unsent() int {
	n, err := unix.IoctlGetInt(c.FD, unix.SIOCOUTQNSD)
	if err != nil {
		return 0
	}
	return n
}
