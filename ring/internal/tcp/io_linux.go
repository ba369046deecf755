package tcp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outbox is what one system call sends. It never allocates.
type outbox struct {
	header unix.Msghdr
	pieces [maxPieces]unix.Iovec
	count  int
}

func (o *outbox) add(b []byte) {
	o.pieces[o.count].Base = &b[0]
	o.pieces[o.count].SetLen(len(b))
	o.count++
}

// piece is one of what was added.
func (o *outbox) piece(i int) []byte { return unsafe.Slice(o.pieces[i].Base, o.pieces[i].Len) }

// clear drops the memory.
func (o *outbox) clear() {
	for i := range o.pieces[:o.count] {
		o.pieces[i].Base = nil
	}
	o.count = 0
}

// send hands to the kernel what it takes at once.
func (o *outbox) send(fd int) (int, error) {
	o.header.Iov = &o.pieces[0]
	o.header.SetIovlen(o.count)
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&o.header)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// recv takes what is there, or fails with EAGAIN. 0 bytes are the end.
func recv(fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

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
		return nil // the socket's own calls will tell
	}
	return health{
		outstanding: int(info.Unacked),
		retries:     int(info.Retransmits),
		probes:      int(info.Probes),
		lastHeard:   time.Duration(info.Last_ack_recv) * time.Millisecond,
	}.verdict()
}

// unsent is how many bytes the kernel has not sent yet.
func unsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQNSD)
	if err != nil {
		return 0
	}
	return n
}
