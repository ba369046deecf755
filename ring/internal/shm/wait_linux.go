package shm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	spinFor  = 5 * time.Microsecond  // of looking without pause
	pauses   = 4                     // processor pauses between two looks: 10 to 140 cycles each
	clocked  = 16                    // looks between two looks at the clock
	yields   = 50                    // looks between which other processes may run
	idle     = 6                     // times as many if every rank has a core, and nobody has to run first
	sleepMax = 50 * time.Millisecond // asleep before we look whether the job still lives
)

// waiter waits for counters, in the way that fits the machine: while every rank
// has a core of its own it looks without pause for a while, else it lets the
// others run at once; after a while it sleeps.
type waiter struct {
	spin     bool
	broken   *atomic.Bool // the job is over: every wait ends
	controls []*control
	place    uint64 // of this rank's call, and its sign: see Group.Announce
	sign     uint64
	idle     func() error // what else to look at in vain, or nil
}

// until returns when c, a counter of rank q, has reached at least target. It
// fails with ErrBroken when the job is over, and with a *GoneError when q is gone.
func (w *waiter) until(c *counter, target uint32, q int) error {
	if c.reached(target) || w.look(func() bool { return c.reached(target) }) {
		return nil
	}
	for !w.broken.Load() {
		var err error
		if c.sleep(target) {
			// Looked at before the counter: a rank may end right after its last step.
			err = w.vain(q)
		}
		switch {
		case c.reached(target):
			return nil
		case err != nil && !w.broken.Load():
			return err
		}
	}
	return ErrBroken
}

// vain says why it is in vain to wait for rank q, if it is: q is gone, or makes another
// call.
func (w *waiter) vain(q int) error {
	if w.gone(q) {
		return &GoneError{q}
	}
	if err := w.differs(q); err != nil || w.idle == nil {
		return err
	}
	return w.idle()
}

// look looks for a while whether ready is true.
func (w *waiter) look(ready func() bool) bool {
	looks := yields
	if w.spin {
		if spin(ready) {
			return true
		}
		looks *= idle
	}
	for range looks {
		if w.broken.Load() {
			return false
		}
		yield()
		if ready() {
			return true
		}
	}
	return false
}

// spin looks without pause. It goes by the clock, since a processor's pause is
// short or long; and it ends soon, since even where there are cores enough, the
// rank that is waited for may be on this one.
func spin(ready func() bool) bool {
	var begun time.Time
	for looks := 1; ; looks++ {
		pause(pauses)
		if ready() {
			return true
		}
		switch {
		case looks == clocked:
			begun = time.Now()
		case looks%clocked == 0 && time.Since(begun) > spinFor:
			return false
		}
	}
}

// listen sleeps until ready is true, or sleepMax is over, which it reports. Who
// makes ready true rings the bell. It fails with ErrBroken when the job is over.
func (w *waiter) listen(bell *counter, ready func() bool) (silent bool, err error) {
	bell.waiters.Add(1)
	defer bell.waiters.Add(^uint32(0))
	for {
		rung := bell.value.Load()
		switch {
		case ready():
			return false, nil
		case w.broken.Load():
			return false, ErrBroken
		}
		if bell.wait(rung) {
			return true, nil
		}
	}
}

// gone reports that rank q can make no step any more.
func (w *waiter) gone(q int) bool {
	control := w.controls[q]
	return control.left.Load() != 0 || ended(int(control.pid.Load()), control.born)
}

// ended reports that a process, which began at born, is no more, or waits only
// to be reaped.
func ended(pid int, born uint64) bool {
	state, since, err := processState(pid)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return state == 'Z' || state == 'X' || since != born
}

// processState is a process's state and when it began, in clock ticks.
func processState(pid int) (state byte, born uint64, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseStat(stat)
}

// parseStat reads a process's state and start, fields 3 and 22 of /proc/PID/stat.
// Field 2 is the program's name in parentheses, which may hold any bytes.
func parseStat(stat []byte) (state byte, born uint64, err error) {
	const stateAt, bornAt = 0, 22 - 3
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= bornAt {
		return 0, 0, errors.New("the kernel says nothing of the process")
	}
	born, err = strconv.ParseUint(string(fields[bornAt]), 10, 64)
	return fields[stateAt][0], born, err
}

// yield lets other processes run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// reached compares counters that may wrap around.
func (c *counter) reached(target uint32) bool { return int32(c.value.Load()-target) >= 0 }

// set moves the counter on and wakes who sleeps for it.
func (c *counter) set(value uint32) {
	c.value.Store(value)
	if c.waiters.Load() > 0 {
		c.wake()
	}
}

// ring wakes who listens to the counter as a bell.
func (c *counter) ring() {
	if c.waiters.Load() > 0 {
		c.value.Add(1)
		c.wake()
	}
}

func (c *counter) wake() {
	const futexWake = 1
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWake, 1<<30, 0, 0, 0)
}

// sleep waits until the counter changes, a wake comes, or sleepMax is over, which
// it reports.
func (c *counter) sleep(target uint32) (silent bool) {
	c.waiters.Add(1)
	defer c.waiters.Add(^uint32(0))
	now := c.value.Load()
	return int32(now-target) < 0 && c.wait(now)
}

// wait sleeps until the counter is not now any more, a wake comes, or sleepMax is
// over, which it reports. The futex is shared between processes.
func (c *counter) wait(now uint32) (silent bool) {
	const futexWait = 0
	begun := time.Now()
	for left := sleepMax; ; left = sleepMax - time.Since(begun) {
		timeout := unix.NsecToTimespec(max(int64(left), 1))
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWait, uintptr(now), uintptr(unsafe.Pointer(&timeout)), 0, 0)
		if errno != unix.EINTR {
			return errno == unix.ETIMEDOUT
		} // a program may get signals all the time, as from a timer: they are not a sign of life of the other rank
	}
}

// usableCores is how many processors the ranks have together: those that any of
// them may run on, but no more than this one's control groups leave it time for.
func usableCores(controls []*control) float64 {
	var all unix.CPUSet
	for _, c := range controls {
		for i, word := range c.cpus {
			all[i] |= word
		}
	}
	return min(float64(max(1, all.Count())), quota(os.DirFS("/")))
}
