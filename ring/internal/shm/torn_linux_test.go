package shm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
func halfway(g *Group, args []string) string {
	for range 20 {
		if err := g.Barrier(7); err != nil {
			return err.Error()
		}
	}
	if strconv.Itoa(g.rank) == args[0] {
		time.Sleep(4 * sleepMax)
		g.begin(0)
		mine := &g.seg.controls[g.rank].cell[g.message%cells]
		mine.waiters.Add(1) // as if it slept itself
		mine.sign = 7
		if args[1] == "stored" {
			mine.value.Store(g.message) // as set does before it wakes
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	first := g.Barrier(7)
	err := first
	if first == nil {
		err = g.Barrier(7)
	}
	told := time.Now().UnixNano()
	g.seg.controls[g.rank].left.Store(1) // as Close does
	gone := new(LeftError)
	if !errors.As(err, &gone) || (first == nil) != (args[1] == "stored") {
		return fmt.Sprintf("barrier: %v, then %v", first, err)
	}
	return fmt.Sprint(gone.Rank, told)
}

// killed runs a program in which rank 1 of 3 kills itself and the others report the rank that has
// ended. It returns how long the slowest took to notice.
func killed(t testing.TB, program string) (longest time.Duration) {
	ranks := startRanks(t, 3, program)
	if line, err := ranks[1].Line(); err != io.EOF {
		t.Fatalf("the victim reports %s, %v", line, err)
	}
	died := time.Now()
	var named []int
	for _, rank := range []int{0, 2} {
		var who int
		var told int64
		line, err := ranks[rank].Line()
		_, serr := fmt.Sscan(line, &who, &told)
		must.That(t, err == nil && serr == nil, "rank %d says %q, %v", rank, line, err)
		longest = max(longest, time.Unix(0, told).Sub(died))
		named = append(named, who)
	}
	check.That(t, slices.Contains(named, 1), "the other ranks name %v, and none the victim", named)
	return longest
}

// A rank is killed between the store that ends the others' wait and their wakeup, or just before
// the store. No rank sleeps forever, and all report the killed rank at their next step. R16 of the
// fault matrix.
func TestKilledBetweenStoreAndWake(t *testing.T) {
	for _, step := range []string{"stored", "signed"} {
		t.Run(step, func(t *testing.T) { killed(t, "halfway 1 "+step) })
	}
}

// BenchmarkKilledRank measures how long the other ranks take to notice a killed rank. It must stay
// below 1 s: R16 of the fault matrix.
func BenchmarkKilledRank(b *testing.B) {
	var longest time.Duration
	for range b.N {
		longest = max(longest, killed(b, "halfway 1 stored"))
	}
	b.ReportMetric(float64(longest.Milliseconds()), "ms/notice")
	check.That(b, longest <= time.Second, "a rank noticed after %v", longest)
}

// No rank can resize the shared memory or remove that protection. If one punches a hole in it, the
// others read zeros and get no SIGBUS. R15 of the fault matrix.
func TestPeerCannotTakeMemoryAway(t *testing.T) {
	const size = 16 * probeSize
	own, offer := must.GetTwo(makeMemory(size))(t)
	defer unix.Munmap(own.bytes)
	defer own.file.Close()
	theirs := must.Get(openMemory(offer, size))(t)
	defer unix.Munmap(theirs)
	peer := must.Get(unix.Open("/proc/self/fd/"+strconv.Itoa(int(own.file.Fd())), unix.O_RDWR|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(peer)
	for _, to := range []int64{0, probeSize, 2 * size} {
		check.Error(unix.Ftruncate(peer, to)).Is(t, unix.EPERM, "truncated to", to, "bytes")
	}
	check.Error(unix.FcntlInt(uintptr(peer), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)).Is(t, unix.EPERM, "sealed once more")
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
