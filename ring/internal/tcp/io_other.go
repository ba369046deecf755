//go:build !linux

package tcp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// outbox is what one system call sends.
type outbox struct {
	pieces [maxPieces][]byte
	count  int
}

func (o *outbox) add(b []byte) {
	o.pieces[o.count] = b
	o.count++
}

func (o *outbox) piece(i int) []byte { return o.pieces[i] }

func (o *outbox) clear() {
	clear(o.pieces[:o.count])
	o.count = 0
}

func (o *outbox) send(fd int) (int, error) {
	for {
		n, err := unix.SendmsgBuffers(fd, o.pieces[:o.count], nil, nil, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func recv(fd int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}

type watcher struct{ fds [2]unix.PollFd }

const hangup = 0

func (w *watcher) poll(fds []unix.PollFd) error {
	_, err := unix.Poll(fds, int(tick.Milliseconds()))
	return err
}

// silent knows nothing here: the kernel ends a dead connection when it gives up.
func silent(int) error { return nil }

// unsent is not known here.
func unsent(int) int { return 0 }

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
