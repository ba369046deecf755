package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

// yield lets other processes run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// watcher waits for sockets. It never allocates.
type watcher struct {
	fds   [2]unix.PollFd
	limit unix.Timespec
}

const hangup = unix.POLLRDHUP

func (w *watcher) poll(fds []unix.PollFd) error {
	w.limit = unix.NsecToTimespec(tick.Nanoseconds())
	_, err := unix.Ppoll(fds, &w.limit, nil)
	return err
}

// silent returns an error when the network to the other end of fd is dead.
func silent(fd int) error {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
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

// unsent returns how many bytes the kernel has not sent yet.
func unsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQNSD)
	if err != nil {
		return 0
	}
	return n
}
