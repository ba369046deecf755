//go:build !linux

package tcp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

type watcher struct{ fds []unix.PollFd }

const hangup = 0

// poll waits for at most a tick, and returns how many sockets are ready.
func (w *watcher) poll() (ready int, err error) {
	return unix.Poll(w.fds, int(tick.Milliseconds()))
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
