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

	"github.com/gorun/gorun/internal/host/topology"
)

const (
	spinFor  = 5 * time.Microsecond   // time of spinning
	hurried  = 64                     // first polls, without a pause: about as long as a tiny message takes
	pauses   = 4                      // processor pauses between two later polls: 10 to 140 cycles each
	clocked  = 16                     // polls between two readings of the clock
	yields   = 200                    // polls, each after a yield
	kept     = 200 * time.Microsecond // a yield that takes longer has given the processor to a thread that computes
	resting  = 20 * time.Millisecond  // without yields after such a one
	sleepMax = 50 * time.Millisecond  // one sleep, before the next check that the job is alive
)

// waiter waits for counters: it spins at first if every rank can have a core, then yields
// to other processes unless that has lately taken long, then sleeps.
type waiter struct {
	broken   *atomic.Bool // the job is over: every wait ends
	controls []*control
	crowd    crowd
	place    uint64 // position and sign of this rank's call: see Group.Announce
	sign     uint64
	idle     func() error // a check of the rest of the job while waiting, or nil
	lent     time.Time    // last time a yield took too long
	slow     bool         // a wait of this call has taken longer than spinning
}

// until returns when c, a counter of rank q, has reached at least target. The error is
// ErrBroken if the job is over, or a *LeftError if q has ended.
func (w *waiter) until(c *counter, target uint32, q int) error {
	if c.reached(target) || w.look(func() bool { return c.reached(target) }) {
		return nil
	}
	for !w.broken.Load() {
		var err error
		if c.sleep(target) {
			// Read before the counter, since a rank may end right after its last step.
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

// vain returns an error if rank q will not make the awaited step, because it has ended or
// is in another call.
func (w *waiter) vain(q int) error {
	if w.hasLeft(q) {
		return &LeftError{q}
	}
	if err := w.differs(q); err != nil || w.idle == nil {
		return err
	}
	return w.idle()
}

// look polls ready for a while and returns its last result.
func (w *waiter) look(ready func() bool) bool {
	if w.crowd.fair == 1 && spin(ready) {
		return true
	}
	w.slow = true
	if w.rests() {
		return ready()
	}
	defer w.crowd.exit()
	if w.crowd.enter() && w.crowd.moveAway() {
		return ready()
	}
	if w.poll(ready) {
		return true
	}
	if w.crowd.shared() {
		w.crowd.moveAway()
	}
	return ready()
}

// poll yields before each look.
func (w *waiter) poll(ready func() bool) bool {
	for range yields {
		if w.broken.Load() {
			return false
		}
		var begun time.Time
		if w.crowd.fair == 1 {
			begun = time.Now()
		}
		yield()
		if ready() {
			return true
		}
		if w.crowd.fair == 1 && time.Since(begun) > kept {
			w.lent = time.Now()
			return false
		}
	}
	return false
}

// rests reports whether the rank is to sleep instead of yielding: it gets the processor back at
// once from a thread that computes, and after a yield only at the end of that thread's slice. Where
// ranks share processors it is they who compute, and a yield is what lets them.
func (w *waiter) rests() bool { return w.crowd.fair == 1 && time.Since(w.lent) < resting }

// spin polls without yielding. It is bounded by the clock, since the length of a
// processor's pause varies, and short, since the other rank may be on this core.
func spin(ready func() bool) bool {
	var begun time.Time
	for looks := 1; ; looks++ {
		if looks > hurried {
			pause(pauses)
		}
		if ready() {
			return true
		}
		switch {
		case looks == hurried:
			begun = time.Now()
		case looks > hurried && looks%clocked == 0 && time.Since(begun) > spinFor:
			return false
		}
	}
}

// listen sleeps until ready is true, or sleepMax is over, which it reports. The rank that
// makes ready true rings the bell. The error is ErrBroken if the job is over.
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

// hasLeft reports whether rank q has ended or left.
func (w *waiter) hasLeft(q int) bool {
	control := w.controls[q]
	return control.left.Load() != 0 || ended(int(control.pid.Load()), control.born)
}

// ended reports whether the process that began at born has ended, reaped or not.
func ended(pid int, born uint64) bool {
	state, since, err := processState(pid)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return state == 'Z' || state == 'X' || since != born
}

// processState returns a process's state and when it began, in clock ticks. It reads those of the
// first thread, which are the process's: an emulator of another processor (qemu-user) invents
// /proc/PID/stat of itself, so that two ranks would not agree on a start.
func processState(pid int) (state byte, born uint64, err error) {
	number := strconv.Itoa(pid)
	stat, err := os.ReadFile("/proc/" + number + "/task/" + number + "/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseStat(stat)
}

// parseStat reads a process's state and start, fields 3 and 22 of a stat file.
// Field 2 is the program's name in parentheses, which may hold any bytes.
func parseStat(stat []byte) (state byte, born uint64, err error) {
	const stateAt = 0
	const bornAt = 22 - 3
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

// set stores the counter and wakes the ranks that sleep on it.
func (c *counter) set(value uint32) {
	c.value.Store(value)
	if c.waiters.Load() > 0 {
		c.wake()
	}
}

// ring wakes the rank that listens to the counter as a bell.
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
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.value)), futexWait, uintptr(now),
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
		if errno != unix.EINTR {
			return errno == unix.ETIMEDOUT
		} // a signal is no sign of life of the other rank: a profiler's timer sends them all the time
	}
}

// usableCores returns the number of processors that the ranks have together: those in any
// rank's affinity, limited by the CPU quota of this rank's control groups.
func usableCores(controls []*control) float64 {
	var all unix.CPUSet
	for _, c := range controls {
		for i, word := range c.cpus {
			all[i] |= word
		}
	}
	cores := float64(max(1, all.Count()))
	if quota := topology.Quota(os.DirFS("/")); quota > 0 {
		return min(cores, quota)
	}
	return cores
}
