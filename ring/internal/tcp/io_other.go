//go:build !linux

package tcp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

type watcher struct{ fds [2]unix.PollFd }

const hangup = 0

func (w *watcher) poll(fds []unix.PollFd) error {
	_, err := unix.Poll(fds, int(tick.Milliseconds()))
	return err
}

// silent never fails: here the kernel alone ends dead connections.
func silent(int) error { return nil }

// unsent is unknown here.
func unsent(int) int { return 0 }

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
