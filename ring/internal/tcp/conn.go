package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
)

// conn carries one stripe of the bytes between two ranks, in order and each once. Send, Recv,
// Peek and Note never wait; they fail with EAGAIN if nothing moves. One goroutine uses a conn
// at a time; only Wake may be called concurrently.
type conn interface {
	// Send accepts bytes in o and returns how many. It keeps no more of their memory than
	// Held and Release describe.
	Send(o *secure.Outbox) (int, error)
	// Held returns how many accepted bytes another Send must hand to the kernel. That Send
	// may have nothing to add.
	Held() int
	// Release ends the use of the memory that Send accepted.
	Release()
	// Recv receives available bytes. 0 bytes without an error are the end.
	Recv(b []byte) (int, error)
	// Peek copies the next bytes without consuming them.
	Peek(b []byte) (int, error)
	// Note sends a short text that no Send repeats.
	Note(text []byte) (int, error)
	// Discard drops what was received. Nothing can be received after it.
	Discard(buffer []byte)

	// Watch appends what poll must watch to learn when Send or Recv can go on, and returns how long
	// it may wait at most, or 0 for any time. Woken reports which of them can, given the polled
	// elements.
	Watch(fds []unix.PollFd, send, recv bool) ([]unix.PollFd, time.Duration)
	Woken(fds []unix.PollFd) (send, recv bool, err error)

	// Silent returns an error when the network to the other rank is dead.
	Silent() error
	// Trip returns the shortest round trip so far, or 0 if it is not known.
	Trip() time.Duration
	// Unsent returns how many bytes may be lost if the conn is closed now.
	Unsent() int
	// Wake ends all waits for good. Received bytes can still be read, and the other rank
	// notices nothing.
	Wake()
	Close() error
}

// socket is a conn of one connection.
type socket struct{ *secure.Conn }

// Held is 0: what Send accepts, the kernel has.
func (socket) Held() int { return 0 }

// Release does nothing: Send has copied the bytes.
func (socket) Release() {}

func (s socket) Trip() time.Duration {
	_, trip := s.Look()
	return trip
}

func (s socket) Watch(fds []unix.PollFd, send, recv bool) ([]unix.PollFd, time.Duration) {
	fd := unix.PollFd{Fd: int32(s.FD)}
	if send {
		fd.Events |= unix.POLLOUT | hangup
	}
	if recv {
		fd.Events |= unix.POLLIN
	}
	return append(fds, fd), 0
}

func (s socket) Woken(fds []unix.PollFd) (send, recv bool, err error) {
	const over = unix.POLLERR | unix.POLLHUP | hangup
	came := fds[0].Revents
	if fds[0].Events&unix.POLLIN == 0 && came&hangup != 0 {
		err = unix.EPIPE // a rank that has hung up receives no more
	}
	return came&(unix.POLLOUT|over) != 0, came&(unix.POLLIN|over) != 0, err
}

func (s socket) Wake() { _ = unix.Shutdown(s.FD, unix.SHUT_RD) }
