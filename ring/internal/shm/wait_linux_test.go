package shm

import (
	"cmp"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	tests := []struct {
		text  string
		state byte
		born  uint64
		ok    bool
	}{
		{"12 (go) S" + rest, 'S', 4711, true},
		{"12 (a) Z) b (c)) Z" + rest, 'Z', 4711, true},
		{"12 (go) S 1 2 3", 0, 0, false},
		{"", 0, 0, false},
		{")", 0, 0, false},
	}
	for _, tt := range tests {
		state, born, err := parseStat([]byte(tt.text))
		check.That(t, state == tt.state && born == tt.born && (err == nil) == tt.ok,
			"%q: state %q, born %d, err %v", tt.text, state, born, err)
	}
}

// After a yield that took long, which gave the processor to a thread that computes, a rank sleeps
// for a while where it would yield, unless ranks share processors.
func TestLateYieldsGiveWayToSleep(t *testing.T) {
	for fair, want := range map[int]int{1: 1, 2: yields} {
		w := waiter{broken: new(atomic.Bool), crowd: crowd{fair: fair, all: []*control{new(control)}}}
		polls := 0
		w.poll(func() bool {
			polls++
			time.Sleep(2 * kept)
			return false
		})
		check.That(t, polls == want, "%d ranks a processor: %d polls of %d, which all came late", fair, polls, yields)
		if w.lent = time.Now().Add(time.Hour); w.rests() != (fair == 1) {
			t.Errorf("%d ranks a processor: after a late yield it rests: %v", fair, w.rests())
		}
		w.lent = time.Now().Add(-resting)
		check.That(t, !w.rests(), "%d ranks a processor: it rests for too long", fair)
	}
}

func TestEnded(t *testing.T) {
	pid := procPID()
	_, born, err := processState(pid)
	must.That(t, err == nil && born != 0, "this process was born at %d, err %v", born, err)
	check.That(t, !ended(pid, born), "this process has ended")
	check.That(t, ended(pid, born+1), "another process of that number is taken for the first")
	for _, pid := range []int{-1, 0, 999_999_999} {
		check.That(t, ended(pid, 0), "process %d lives", pid)
	}
	child := exec.Command("true")
	must.OK(t, child.Start())
	defer child.Wait()
	_, born, err = processState(child.Process.Pid)
	must.OK(t, err)
	// The child is not reaped before this test ends.
	for !ended(child.Process.Pid, born) { // else the test times out
		yield()
	}
}

// A rank that waits for a late one knows it, and the next call begins anew.
func TestWaited(t *testing.T) {
	each(t, 2, func(g *Group) {
		g.Announce(1, 7)
		if g.rank == 1 {
			for late := &g.seg.controls[1].cell[1%cells]; late.waiters.Load() == 0; { // else the test times out
				yield()
			}
		}
		check.OK(t, g.Barrier(7))
		check.That(t, g.rank != 0 || g.Waited(), "a rank has slept in a call, and does not know it")
		g.Announce(3, 7)
		check.That(t, !g.Waited(), "a rank has waited before its call")
	})
}

func TestUsableCores(t *testing.T) {
	var a, b, c control
	a.cpus.Set(0)
	b.cpus.Set(3)
	c.cpus.Set(3)
	limit := cmp.Or(topology.Quota(os.DirFS("/")), math.Inf(1))
	for _, tt := range []struct {
		controls []*control
		want     float64
	}{
		{[]*control{&a}, 1},
		{[]*control{&a, &b, &c}, 2},
		{[]*control{{}, {}}, 1}, // nothing is known
	} {
		check.Equal(t, usableCores(tt.controls), min(tt.want, limit), "cores, want", tt.want)
	}
	var mine unix.CPUSet
	must.OK(t, unix.SchedGetaffinity(0, &mine))
	a.introduce()
	check.That(t, a.cpus == mine && int(a.pid.Load()) == procPID(),
		"this process is introduced as %d on %v", a.pid.Load(), a.cpus)
}

// A rank that gets a signal every few milliseconds, as from a profiler's timer, still notices that
// the other rank is silent.
func TestSignalsDoNotHideSilence(t *testing.T) {
	c := new(counter)
	silent := make(chan bool, 1)
	thread := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		silent <- c.wait(0)
	}()
	tid := <-thread
	tick := time.NewTicker(sleepMax / 10)
	defer tick.Stop()
	for signals := 0; ; signals++ {
		select {
		case was := <-silent:
			check.That(t, was, "after %d signals it was not silent", signals)
			return
		case <-tick.C:
			must.OK(t, unix.Tgkill(os.Getpid(), tid, unix.SIGURG))
		}
	}
}
