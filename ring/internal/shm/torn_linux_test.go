package shm

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"

	"golang.org/x/sys/unix"
)

// halfway is "VICTIM STEP": it makes barriers. In one of them the victim is late, so that the
// others sleep, does STEP and kills itself before it wakes them. The result is how that barrier and
// the next one end.
func (c *rankProcess) halfway(args []string) string {
	victim, _ := strconv.Atoi(args[0])
	for range 20 {
		if err := c.g.Barrier(7); err != nil {
			return err.Error()
		}
	}
	if c.rank == victim {
		time.Sleep(4 * sleepMax)
		c.g.begin(0)
		mine := &c.g.seg.controls[c.rank].cell[c.g.message%cells]
		mine.waiters.Add(1) // as if it slept itself
		mine.sign = 7
		if args[1] == "stored" {
			mine.value.Store(c.g.message) // as set does before it wakes
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	first := c.g.Barrier(7)
	err := first
	if first == nil {
		err = c.g.Barrier(7)
	}
	told := time.Now().UnixNano()
	c.g.seg.controls[c.g.rank].left.Store(1) // as Close does
	gone := new(LeftError)
	if !errors.As(err, &gone) || (first == nil) != (args[1] == "stored") {
		return fmt.Sprintf("barrier: %v, then %v", first, err)
	}
	return fmt.Sprint(gone.Rank, told)
}

// A rank is killed between the store that ends the others' wait and their wakeup, or just before
// the store. No rank sleeps forever, and all report the killed rank at their next step. R16 of the
// fault matrix.
func TestKilledBetweenStoreAndWake(t *testing.T) {
	for _, step := range []string{"stored", "signed"} {
		t.Run(step, func(t *testing.T) { killed(t, "halfway 1 "+step, 1) })
	}
}

// No rank can resize the shared memory or remove that protection. If one punches a hole in it, the
// others read zeros and get no SIGBUS. R15 of the fault matrix.
func TestPeerCannotTakeMemoryAway(t *testing.T) {
	const size = 16 * probeSize
	own, offer, err := makeMemory(size)
	must.OK(t, err)
	defer unix.Munmap(own.bytes)
	defer own.file.Close()
	theirs, err := openMemory(offer, size)
	must.OK(t, err)
	defer unix.Munmap(theirs)
	peer, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(own.file.Fd())), unix.O_RDWR|unix.O_CLOEXEC, 0)
	must.OK(t, err)
	defer unix.Close(peer)
	for _, to := range []int64{0, probeSize, 2 * size} {
		if err := unix.Ftruncate(peer, to); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncated to %d bytes: %v", to, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(peer), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("sealed once more: %v", err)
	}
	for i := range own.bytes {
		own.bytes[i] = 1
	}
	must.OK(t, unix.Fallocate(peer, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size))
	for i := 0; i < size; i += probeSize {
		check.That(t, own.bytes[i] == 0, "byte %d is %d after all was taken out", i, own.bytes[i])
		theirs[i] = 2
	}
	check.That(t, own.bytes[size-probeSize] == 2, "the ranks no longer share the memory")
}
