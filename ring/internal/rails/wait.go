package rails

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (s *Stream) makeWakePipe() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(s.wakePipe[:]); err != nil {
		return err
	}
	for _, fd := range s.wakePipe {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			s.closeWakePipe()
			return err
		}
	}
	return nil
}

func (s *Stream) closeWakePipe() {
	for _, fd := range s.wakePipe {
		_ = unix.Close(fd)
	}
}

// signal ends a poll under way, or the next one.
func (s *Stream) signal() {
	if !s.signalled {
		s.signalled = true
		_, _ = unix.Write(s.wakePipe[1], []byte{1})
	}
}

func (s *Stream) clearSignal() {
	if s.signalled && !s.woken {
		s.signalled = false
		var b [1]byte
		_, _ = unix.Read(s.wakePipe[0], b[:])
	}
}

// blocking reports whether a lane has data that lies ahead of the next bytes.
func (s *Stream) blocking(send bool) bool {
	if s.in.draining || s.out.sinking || send && s.out.blocked.IsZero() {
		return false
	}
	for _, l := range s.lanes {
		if l.left > 0 && (send || l.off > s.in.next) {
			return true
		}
	}
	return false
}

// Watch appends what poll must watch. The wait must end soon if data is to be taken out of the way
// of what comes next.
func (s *Stream) Watch(fds []unix.PollFd, send, recv bool) ([]unix.PollFd, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	s.watched = append(s.watched[:0], s.lanes...)
	for _, l := range s.lanes {
		fds = append(fds, unix.PollFd{Fd: int32(l.conn.FD), Events: s.events(l, send, recv)})
	}
	limit := time.Duration(0)
	if s.blocking(send) {
		limit = stallTime
	}
	return append(fds, unix.PollFd{Fd: int32(s.wakePipe[0]), Events: unix.POLLIN}), limit
}

func (s *Stream) events(l *lane, send, recv bool) int16 {
	var events int16
	if l.pending() > 0 {
		events |= unix.POLLOUT
	}
	if send && !recv {
		events |= hangup
	}
	acks := send && !s.out.blocked.IsZero()
	if (recv || acks) && (l.left == 0 || s.in.draining || s.out.sinking) || recv && l.off <= s.in.next {
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
			send = true
			recv = true
		}
		l.broken = l.broken || came&(unix.POLLERR|unix.POLLHUP|hangup) != 0
	}
	clear(s.watched)
	if fds[len(fds)-1].Revents != 0 {
		send = true
		recv = true
		s.clearSignal()
	}
	return send, recv, nil
}

// Wake ends all waits for good.
func (s *Stream) Wake() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = true
	s.signal()
	for _, l := range s.lanes {
		_ = unix.Shutdown(l.conn.FD, unix.SHUT_RD)
	}
}
