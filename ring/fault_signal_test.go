package ring_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// Signals come a thousand times a second, by the clock and by the time used.
// It is row R11 of the fault matrix.
func TestSignalStorm(t *testing.T) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGALRM)
	defer signal.Stop(came)
	every := unix.Itimerval{Interval: unix.Timeval{Usec: 1000}, Value: unix.Timeval{Usec: 1000}}
	for _, which := range []unix.ItimerWhich{unix.ITIMER_REAL, unix.ITIMER_PROF} {
		must.Get(unix.Setitimer(which, every))(t)
		defer unix.Setitimer(which, unix.Itimerval{})
	}
	<-came
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		for range rounds(1) {
			everyKind(t, comms, 10, synchronously)
			everyKind(t, comms, 30_000, synchronously)
		}
	})
	<-came // they have not ceased
}

// All ranks are killed at each step of joining. Nothing with a name may stay behind, and
// nobody else has the memory.
// It is row R13 of the fault matrix.
func TestRankKilledDuringInit(t *testing.T) {
	l := layouts()[2].of(3)
	before := names(t, "/dev/shm")
	steps := []string{"host", "shm/offer", "shm/leader", "shm/memory", "shm/have", "addr"}
	for _, step := range append(steps, "joined") {
		d := l.job(t)
		reached := make(chan struct{}, l.size)
		killed := make(chan struct{})
		d.OnPost(func(name string, rank int, value []byte) []byte {
			if strings.HasSuffix(name, "/"+step) {
				reached <- struct{}{}
				<-killed
			}
			return value
		})
		var ranks []*lab.Program
		for rank := range l.size {
			ranks = append(ranks, startRank(t, l, d, rank, duty{Form: "allreduce", Way: "plain", N: 100_000}))
		}
		for _, p := range ranks {
			if step != "joined" {
				<-reached
			} else if _, err := p.Hear("running"); err != nil {
				t.Error(err)
			}
		}
		for _, p := range ranks {
			check.OK(t, p.Process.Kill())
		}
		for _, p := range ranks {
			_ = p.Wait() // it was killed
		}
		close(killed)
		left := lab.Processes("GORUN_JOB_ID=" + d.ID)
		check.That(t, len(left) == 0, "%s: processes %v are left", step, left)
		holders := holding(t)
		check.That(t, len(holders) == 0, "%s: the test itself holds %v", step, holders)
	}
	after := names(t, "/dev/shm")
	check.That(t, slices.Equal(after, before), "/dev/shm has %v, had %v", after, before)
}

// names are those in a directory that could be of a job.
func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		lab.Skip(t, "no "+dir)
	}
	var all []string
	for _, e := range entries {
		if strings.Contains(e.Name(), "ring") || strings.Contains(e.Name(), "gorun") {
			all = append(all, e.Name())
		}
	}
	return all
}

// holding lists what this process has of ranks' memory, open or mapped.
func holding(t *testing.T) []string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		lab.Skip(t, "no /proc here")
	}
	var all []string
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:gorun-ring") {
			all = append(all, line)
		}
	}
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.Contains(to, "memfd:gorun-ring") {
			all = append(all, to)
		}
	}
	return all
}

// R10: a program that a rank starts, which is all that a Go program's fork can become, has none of
// the rank's sockets and memory; and while it lives the rank's calls go on, and its end is seen.
func TestStartedProgramsInheritNothing(t *testing.T) {
	lab.Need(t, "ls", "sleep")
	for _, l := range layouts() {
		t.Run(l.name, func(t *testing.T) {
			comms := l.join(t, l.job(t))
			f := specOf("allreduce")
			call := func(rank int) error { return f.once(comms[rank], position{n: 3000}, synchronously) }
			ringtest.All(t, l.size, call)
			child := exec.Command("sleep", "60")
			must.OK(t, child.Start())
			defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
			out := must.Get(exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput())(t)
			check.That(t, !strings.Contains(string(out), "socket:") && !strings.Contains(string(out), "memfd:"),
				"a program that a rank started has:\n%s", out)
			ringtest.All(t, l.size, call)
			within(t, failureDeadline, func() {
				waiting := make(chan error, 1)
				go func() { waiting <- ring.Barrier(ctx, comms[0]) }()
				closeAll(comms[1:])
				check.Error(<-waiting).Any(t, "a barrier is over without the ranks that have closed")
			})
		})
	}
}
