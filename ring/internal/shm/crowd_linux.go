package shm

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// crowd notices that more ranks share a processor than need to. They would hand it to each
// other for long, since neither a yield nor a wakeup has to move a thread, and the kernel
// balances its queues only from time to time. The highest of them leave.
type crowd struct {
	fair  int // ranks of a processor, if they are spread evenly
	rank  int
	all   []*control
	calls int
	moved time.Time // last time this rank left a processor
}

// locateEvery is the number of calls after which a rank says anew on which processor it is.
const locateEvery = 32

// moveEvery bounds how often a rank leaves a processor, which takes some 20 µs.
const moveEvery = time.Millisecond

// locate publishes now and then on which processor this rank makes its calls.
func (c *crowd) locate() {
	if c.calls++; c.calls%locateEvery == 0 {
		c.all[c.rank].located.Store(processor() + 1)
	}
}

// enter publishes that this rank is about to yield its processor while it waits, and
// reports whether enough lower ranks do so on the same one.
func (c *crowd) enter() (crowded bool) {
	here := processor() + 1
	there := 0
	c.all[c.rank].yielding.Store(here)
	for _, other := range c.all[:c.rank] {
		if other.yielding.Load() == here {
			there++
		}
	}
	return there >= c.fair
}

// exit takes back what enter published.
func (c *crowd) exit() { c.all[c.rank].yielding.Store(0) }

// shared reports, after yields were in vain, whether more ranks than need to were last seen
// on this processor. The awaited rank may be there and get no time, since the kernel may
// give a yielded processor back to the one that yielded it.
func (c *crowd) shared() bool {
	here := processor() + 1
	there := 0
	for q, other := range c.all {
		if q != c.rank && other.located.Load() == here {
			there++
		}
	}
	return there >= c.fair
}

// moveAway moves this thread to another processor, unless it did so a moment ago, and
// reports whether it moved. The kernel picks any that is allowed. If that one is busy, too,
// the ranks are no worse off: they run at the same time now and then.
func (c *crowd) moveAway() bool {
	now := time.Now()
	if now.Sub(c.moved) < moveEvery {
		return false
	}
	c.moved = now
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return leave()
}

// leave moves this thread to another processor and leaves its affinity as it was.
func leave() bool {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return false
	}
	others := allowed
	others.Clear(int(processor()))
	if unix.SchedSetaffinity(0, &others) != nil { // no other is allowed
		return false
	}
	return unix.SchedSetaffinity(0, &allowed) == nil
}

// processor returns the number of the processor that this thread runs on.
func processor() uint32 {
	var cpu uint32
	_, _, _ = unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	return cpu
}
