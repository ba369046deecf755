package link

import (
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// burst is how many frames of one host are taken before those that are due are delivered.
	burst = 32
	// grain is the time between two looks at frames: to wake up for each would take most of a
	// processor where there are many.
	grain = 50 * time.Microsecond
)

func makeBell() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) }

// ring ends the carrier's wait.
func (n *Network) ring() { _, _ = unix.Write(n.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (n *Network) hush() { _, _ = unix.Read(n.bell, make([]byte, 8)) }

// carry carries frames until the network is closed. It has a thread of its own, since Go's timers
// are off by up to a millisecond, and asks for it to run at once when a frame is due.
func (n *Network) carry() {
	defer close(n.ended)
	runtime.LockOSThread() // for good: its settings end with it
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	// Without the right to it frames are later, which Stats shows.
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	buffer := make([]byte, frameMax)
	var fds []unix.PollFd
	busy := false // the last wait was short
	for {
		n.mu.Lock()
		begun := time.Now()
		next, some := n.goOn(begun)
		ports := n.ports
		over := n.closing || n.failed != nil
		fds = append(fds[:0], unix.PollFd{Fd: int32(n.bell), Events: unix.POLLIN})
		for _, p := range ports {
			watched := unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN}
			if p.gone {
				watched.Fd = -1
			}
			fds = append(fds, watched)
		}
		n.mu.Unlock()
		if over {
			return
		}
		if left := grain - time.Since(begun); left > 0 && busy {
			pause := unix.NsecToTimespec(left.Nanoseconds())
			_ = unix.Nanosleep(&pause, nil)
		}
		before := time.Now()
		if err := wait(fds, next, some); err != nil {
			n.mu.Lock()
			n.note(err)
			n.mu.Unlock()
			return
		}
		busy = time.Since(before) < grain
		if fds[0].Revents != 0 {
			n.hush()
		}
		for i, p := range ports {
			if fds[i+1].Revents != 0 {
				n.take(p, buffer, fds[i+1].Revents&unix.POLLERR != 0)
			}
		}
	}
}

// wait returns when a file is ready, or at next if some frame is due then.
func wait(fds []unix.PollFd, next time.Time, some bool) error {
	var timeout *unix.Timespec
	if some {
		t := unix.NsecToTimespec(max(0, time.Until(next).Nanoseconds()))
		timeout = &t
	}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

// take takes frames of one host. Gone means that it has no interface any more.
func (n *Network) take(p *Port, buffer []byte, gone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.gone = p.gone || gone
	for range burst {
		got, err := unix.Read(p.fd, buffer)
		if err != nil {
			return // EAGAIN, or the interface is down
		}
		n.enter(slices.Clone(buffer[:got]), p, time.Now())
	}
}
