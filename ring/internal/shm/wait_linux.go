package shm

import (
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
	spin   bool
	broken *atomic.Bool // the job is over: every wait ends
}

// until returns true when c has reached at least target, false when the job is broken.
func (w *waiter) until(c *counter, target uint32) bool {
	if c.reached(target) {
		return true
	}
	if w.spin {
		for range spins {
			pause(pauses)
			if c.reached(target) {
				return true
			}
		}
	}
	for range yields {
		if w.broken.Load() {
			return false
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if c.reached(target) {
			return true
		}
	}
	for !c.reached(target) {
		if w.broken.Load() {
			return false
		}
		c.sleep(target)
	}
	return true
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

// sleep waits until the counter changes, a wake comes, or sleepMax is over. The
// futex is shared between processes.
func (c *counter) sleep(target uint32) {
	c.waiters.Add(1)
	defer c.waiters.Add(^uint32(0))
	now := c.value.Load()
	if int32(now-target) >= 0 {
		return
	}
	const futexWait = 0
	timeout := unix.Timespec{Nsec: sleepMax}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWait, uintptr(now), uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

// ownCores is how many processors this process may run on.
func ownCores() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 1
	}
	return set.Count()
}
