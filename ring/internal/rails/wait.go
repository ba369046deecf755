package rails

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// makeBell makes the pipe.
func (s *Stream) makeBell() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(s.bell[:]); err != nil {
		return err
	}
	for _, fd := range s.bell {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			s.closeBell()
			return err
		}
	}
	return nil
}

func (s *Stream) closeBell() {
	for _, fd := range s.bell {
		_ = unix.Close(fd)
	}
}

// ring ends a poll under way, or the next one.
func (s *Stream) ring() {
	if !s.rung {
		s.rung = true
		_, _ = unix.Write(s.bell[1], []byte{1})
	}
}

// hush makes the bell ready to ring again.
func (s *Stream) hush() {
	if s.rung && !s.woken {
		s.rung = false
		var b [1]byte
		_, _ = unix.Read(s.bell[0], b[:])
	}
}

// SetReadDeadline sets the end of waits to receive.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.readDeadline = t
	return nil
}

// SetWriteDeadline sets the end of waits to send.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.writeDeadline = t
	return nil
}

// AwaitSend calls try until it returns true, each time after there may be room to send.
func (s *Stream) AwaitSend(try func(fd uintptr) bool) error {
	return s.await(try, true, s.writeDeadline)
}

// AwaitRecv calls try until it returns true, each time after there may be bytes.
func (s *Stream) AwaitRecv(try func(fd uintptr) bool) error {
	return s.await(try, false, s.readDeadline)
}

func (s *Stream) await(try func(fd uintptr) bool, send bool, deadline time.Time) error {
	for !try(0) {
		left := time.Until(deadline)
		if left <= 0 || s.isWoken() {
			return os.ErrDeadlineExceeded
		}
		s.fds = s.Watch(s.fds[:0], send, !send)
		if s.ahead(send) {
			left = min(left, stallTime)
		}
		if _, err := unix.Poll(s.fds, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return err
		}
		if _, _, err := s.Woken(s.fds); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) isWoken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.woken
}

// ahead reports whether a wait must end soon to take data out of the way.
func (s *Stream) ahead(send bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocking(send)
}

// blocking reports whether a lane has data that lies ahead of the next bytes.
func (s *Stream) blocking(send bool) bool {
	if s.draining || s.sinking || send && s.blocked.IsZero() {
		return false
	}
	for _, l := range s.lanes {
		if l.left > 0 && (send || l.off > s.next) {
			return true
		}
	}
	return false
}

// Watch appends what poll must watch.
func (s *Stream) Watch(fds []unix.PollFd, send, recv bool) []unix.PollFd {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	s.watched = append(s.watched[:0], s.lanes...)
	for _, l := range s.lanes {
		fds = append(fds, unix.PollFd{Fd: int32(l.conn.FD), Events: s.events(l, send, recv)})
	}
	return append(fds, unix.PollFd{Fd: int32(s.bell[0]), Events: unix.POLLIN})
}

func (s *Stream) events(l *lane, send, recv bool) int16 {
	var events int16
	if l.pending() > 0 {
		events |= unix.POLLOUT
	}
	if send && !recv {
		events |= hangup
	}
	acks := send && !s.blocked.IsZero()
	if (recv || acks) && (l.left == 0 || s.draining || s.sinking) || recv && l.off <= s.next {
		events |= unix.POLLIN
	}
	return events
}

// Woken reports what can go on, given the polled elements. It may say too much.
func (s *Stream) Woken(fds []unix.PollFd) (send, recv bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	for i, l := range s.watched {
		came := fds[i].Revents
		if came != 0 {
			send, recv = true, true
		}
		l.broken = l.broken || came&(unix.POLLERR|unix.POLLHUP|hangup) != 0
	}
	clear(s.watched)
	if fds[len(fds)-1].Revents != 0 {
		send, recv = true, true
		s.hush()
	}
	return send, recv, nil
}

// Wake ends all waits for good.
func (s *Stream) Wake() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = true
	s.ring()
	for _, l := range s.lanes {
		_ = unix.Shutdown(l.conn.FD, unix.SHUT_RD)
	}
}
