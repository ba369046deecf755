package tcp

import (
	"time"

	"golang.org/x/sys/unix"
)

// yield lets other processes run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// watcher waits for sockets. In steady state it does not allocate.
type watcher struct {
	fds   []unix.PollFd
	limit unix.Timespec
}

const hangup = unix.POLLRDHUP

// poll waits for at most so long, and returns how many sockets are ready.
func (w *watcher) poll(limit time.Duration) (ready int, err error) {
	w.limit = unix.NsecToTimespec(limit.Nanoseconds())
	return unix.Ppoll(w.fds, &w.limit, nil)
}
