//go:build !linux

package tcp

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

type watcher struct{ fds []unix.PollFd }

const hangup = 0

// poll waits for at most so long, and returns how many sockets are ready.
func (w *watcher) poll(limit time.Duration) (ready int, err error) {
	return unix.Poll(w.fds, int(limit.Milliseconds()))
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
