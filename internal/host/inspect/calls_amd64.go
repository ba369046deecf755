package inspect

import "golang.org/x/sys/unix"

// oldCallNames names system calls that newer machines do not have.
func oldCallNames() map[int]string {
	return map[int]string{unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait",
		unix.SYS_OPEN: "open", unix.SYS_PAUSE: "pause"}
}
