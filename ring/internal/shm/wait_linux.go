package shm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	spins    = 2000       // about 20 µs of looking
	pauses   = 4          // processor pauses between two looks
	yields   = 50         // looks between which other processes may run
	sleepMax = 50_000_000 // nanoseconds asleep before we look whether the job still lives
)

// waiter waits for counters, in the way that fits the machine: while every rank
// has a core of its own it looks without pause for a while, else it lets the
// others run at once; after a while it sleeps.
type waiter struct {
	spin     bool
	broken   *atomic.Bool // the job is over: every wait ends
	controls []*control
}

// until returns when c, a counter of rank q, has reached at least target. It
// fails with ErrBroken when the job is over, and with a *GoneError when q is gone.
func (w *waiter) until(c *counter, target uint32, q int) error {
	if c.reached(target) {
		return nil
	}
	if w.spin {
		for range spins {
			pause(pauses)
			if c.reached(target) {
				return nil
			}
		}
	}
	for range yields {
		if w.broken.Load() {
			return ErrBroken
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if c.reached(target) {
			return nil
		}
	}
	for {
		silent := c.sleep(target)
		// Looked at before the counter: a rank may end right after its last step.
		gone := silent && w.gone(q)
		switch {
		case c.reached(target):
			return nil
		case w.broken.Load():
			return ErrBroken
		case gone:
			return &GoneError{q}
		}
	}
}

// gone reports that rank q can make no step any more.
func (w *waiter) gone(q int) bool {
	control := w.controls[q]
	return control.left.Load() != 0 || ended(int(control.pid.Load()))
}

// ended reports that a process is no more, or waits only to be reaped.
func ended(pid int) bool {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return found && len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
}

// reached compares counters that may wrap around.
func (c *counter) reached(target uint32) bool { return int32(c.value.Load()-target) >= 0 }

// set moves the counter on and wakes who sleeps for it.
func (c *counter) set(value uint32) {
	c.value.Store(value)
	if c.waiters.Load() > 0 {
		const futexWake = 1
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWake, 1<<30, 0, 0, 0)
	}
}

// sleep waits until the counter changes, a wake comes, or sleepMax is over, which
// it reports. The futex is shared between processes.
func (c *counter) sleep(target uint32) (silent bool) {
	c.waiters.Add(1)
	defer c.waiters.Add(^uint32(0))
	now := c.value.Load()
	if int32(now-target) >= 0 {
		return false
	}
	const futexWait = 0
	timeout := unix.Timespec{Nsec: sleepMax}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWait, uintptr(now), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	return errno == unix.ETIMEDOUT
}

// ownCores is how many processors this process may run on.
func ownCores() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 1
	}
	return set.Count()
}
