package elastic

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts a process in a group of its own. It may outlive a gorun that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits for the end of a child without reaping it.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	end := []unix.Kevent_t{{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT,
		Fflags: unix.NOTE_EXIT}}
	for {
		// ESRCH: it has ended already.
		if _, err := unix.Kevent(queue, end, make([]unix.Kevent_t, 1), nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
