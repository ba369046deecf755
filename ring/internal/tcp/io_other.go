//go:build !linux

package tcp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

type watcher struct{ fds []unix.PollFd }

const hangup = 0

func (w *watcher) poll() error {
	_, err := unix.Poll(w.fds, int(tick.Milliseconds()))
	return err
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
