package shm

import (
	"runtime"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"

	"golang.org/x/sys/unix"
)

// keep makes this thread run on processors of its affinity alone, which it returns, until the test
// ends.
func keep(t *testing.T) unix.CPUSet {
	t.Helper()
	runtime.LockOSThread()
	var before unix.CPUSet
	must.OK(t, unix.SchedGetaffinity(0, &before))
	t.Cleanup(func() {
		check.OK(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	})
	return before
}

func TestLeave(t *testing.T) {
	before := keep(t)
	if before.Count() < 2 {
		t.Skip("it needs two processors")
	}
	left := false
	for range 100 { // the kernel may move it back before it looks
		here := processor()
		must.That(t, leave(), "this thread may use two processors and did not leave one")
		left = left || processor() != here
		var after unix.CPUSet
		err := unix.SchedGetaffinity(0, &after)
		must.That(t, err == nil && after == before, "affinity %v, before %v (%v)", after, before, err)
	}
	check.That(t, left, "100 times this thread was on the same processor after it had left it")
}

func TestLeaveTheOnlyProcessor(t *testing.T) {
	keep(t)
	var one, after unix.CPUSet
	one.Set(int(processor()))
	must.OK(t, unix.SchedSetaffinity(0, &one))
	check.That(t, !leave(), "this thread left the only processor that it may use")
	err := unix.SchedGetaffinity(0, &after)
	check.That(t, err == nil && after == one, "affinity %v, want %v (%v)", after, one, err)
}

// A rank that makes calls says on which processor, for those that wait for it there in vain.
func TestLocated(t *testing.T) {
	keep(t)
	var one unix.CPUSet
	one.Set(int(processor()))
	must.OK(t, unix.SchedSetaffinity(0, &one))
	controls := []*control{new(control), new(control)}
	busy := crowd{fair: 1, rank: 0, all: controls}
	waiting := crowd{fair: 1, rank: 1, all: controls}
	check.That(t, !waiting.shared(), "a processor is shared with a rank that was never seen")
	for range locateEvery {
		busy.locate()
		waiting.locate()
	}
	check.That(t, waiting.shared() && busy.shared(), "two ranks on one processor do not know of each other")
	waiting.fair = 2
	check.That(t, !waiting.shared(), "two ranks of a processor are fair")
}

// Of the ranks that yield one processor to each other, all but the lowest leave it, and not
// at every call.
func TestCrowd(t *testing.T) {
	before := keep(t)
	var one unix.CPUSet
	one.Set(int(processor()))
	must.OK(t, unix.SchedSetaffinity(0, &one))
	controls := []*control{new(control), new(control), new(control)}
	crowds := make([]crowd, len(controls))
	for rank := range crowds {
		crowds[rank] = crowd{fair: 1, rank: rank, all: controls}
	}
	check.That(t, !crowds[2].enter() && !crowds[0].enter(), "a rank leaves although no lower one yields its processor")
	check.That(t, crowds[1].enter(), "rank 1 stays on the processor that rank 0 yields")
	crowds[0].exit()
	crowds[1].exit()
	check.That(t, !crowds[2].enter(), "rank 2 leaves ranks that wait no more")
	crowds[2].fair = 2
	crowds[0].enter()
	check.That(t, !crowds[2].enter(), "rank 2 leaves although two ranks of a processor are fair")
	crowds[1].enter()
	check.That(t, crowds[2].enter(), "rank 2 stays the third on a processor")
	must.OK(t, unix.SchedSetaffinity(0, &before))
	began := time.Now()
	if before.Count() > 1 && (!crowds[1].moveAway() || crowds[1].moveAway() && time.Since(began) < moveEvery) {
		t.Error("a rank moves once in a while")
	}
}
