package ring_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/lab"
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
		if _, err := unix.Setitimer(which, every); err != nil {
			t.Fatal(err)
		}
		defer unix.Setitimer(which, unix.Itimerval{})
	}
	<-came
	onLayouts(t, func(t *testing.T, l layout) {
		comms := l.join(t, l.job(t))
		for range rounds(1) {
			for _, f := range specs() {
				for _, n := range []int{10, 30_000} {
					err := ringtest.Each(l.size, func(rank int) error {
						return f.once(comms[rank], position{n: n}, synchronously)
					})
					if err != nil {
						t.Fatalf("%s: %v", f.name, err)
					}
				}
			}
		}
	})
	<-came // they have not ceased
}

// All ranks are killed at each step of joining. Nothing with a name may stay behind, and
// nobody else has the memory.
// It is row R13 of the fault matrix.
func TestRankKilledDuringInit(t *testing.T) {
	l := layout{
		name:      "stacked",
		transport: "auto",
		hosts:     []int{2, 1},
		size:      3,
		streams:   1,
	}
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
		var ranks []*process
		for rank := range l.size {
			ranks = append(ranks, startRank(t, l, d, rank, duty{Form: "allreduce", Way: "plain", N: 100_000}))
		}
		for _, p := range ranks {
			if step != "joined" {
				<-reached
			} else if err := p.hears("running"); err != nil {
				t.Error(err)
			}
		}
		for _, p := range ranks {
			if err := p.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		for _, p := range ranks {
			_ = p.Wait() // it was killed
		}
		close(killed)
		if left := lab.Processes("GORUN_JOB_ID=" + d.ID); len(left) > 0 {
			t.Errorf("%s: processes %v are left", step, left)
		}
		if holders := holding(t); len(holders) > 0 {
			t.Errorf("%s: the test itself holds %v", step, holders)
		}
	}
	if after := names(t, "/dev/shm"); !slices.Equal(after, before) {
		t.Errorf("/dev/shm has %v, had %v", after, before)
	}
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

// sockets are the TCP connections of this process, by descriptor.
func sockets() []int {
	var all []int
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		fd, err := strconv.Atoi(filepath.Base(link))
		if err != nil {
			continue
		}
		if _, err := unix.Getpeername(fd); err == nil {
			all = append(all, fd)
		}
	}
	return all
}

// toAgent reports whether either end of a connection is port.
func toAgent(fd, port int) bool {
	for _, name := range []func(int) (unix.Sockaddr, error){unix.Getsockname, unix.Getpeername} {
		addr, err := name(fd)
		if err != nil {
			return true
		}
		if v4, ok := addr.(*unix.SockaddrInet4); !ok || v4.Port == port {
			return true
		}
	}
	return false
}

// One of several connections between two ranks is cut while data moves.
// It is row R24 of the fault matrix.
func TestOneCutStreamEndsTheJob(t *testing.T) {
	l := layout{
		name:      "four-streams",
		transport: "tcp",
		size:      3,
		streams:   4,
		more:      []string{"RING_ALGORITHM=ring"},
	} // which uses all links
	for round := range 8 {
		d := l.job(t)
		old := sockets()
		comms := l.join(t, d)
		_, port, _ := strings.Cut(d.Rank(0, "").Agent, ":")
		agentPort, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		var streams []int
		for _, fd := range sockets() {
			if !slices.Contains(old, fd) && !toAgent(fd, agentPort) {
				streams = append(streams, fd)
			}
		}
		if len(streams) < 2*4*2 {
			t.Fatalf("%d ends of streams, want at least 16", len(streams))
		}
		var running sync.WaitGroup
		running.Add(l.size)
		cut := time.Time{}
		over := make(chan error, 1)
		go func() {
			over <- ringtest.Each(l.size, func(rank int) error {
				err := duty{Form: "allreduce", N: 300_000}.work(comms[rank], nil, running.Done)
				if peer := new(ring.PeerError); !errors.As(err, &peer) {
					return err
				}
				return nil
			})
		}()
		running.Wait()
		for range round {
			runtime.Gosched()
		}
		cut = time.Now()
		if err := unix.Shutdown(streams[round*5%len(streams)], unix.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if took := time.Since(cut); took > soon {
			t.Errorf("round %d: all ranks knew after %v", round, took)
		}
		closeAll(comms)
		d.Close()
	}
}

// R10: a program that a rank starts, which is all that a Go program's fork can become, has none of
// the rank's sockets and memory; and while it lives the rank's calls go on, and its end is seen.
func TestStartedProgramsInheritNothing(t *testing.T) {
	lab.Need(t, "ls", "sleep")
	for _, l := range layouts() {
		t.Run(l.name, func(t *testing.T) {
			comms := l.join(t, l.job(t))
			f, err := specOf("allreduce")
			if err != nil {
				t.Fatal(err)
			}
			call := func(rank int) error { return f.once(comms[rank], position{n: 3000}, synchronously) }
			if err := ringtest.Each(l.size, call); err != nil {
				t.Fatal(err)
			}
			child := exec.Command("sleep", "60")
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
			out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), "socket:") || strings.Contains(string(out), "memfd:") {
				t.Errorf("a program that a rank started has:\n%s", out)
			}
			if err := ringtest.Each(l.size, call); err != nil {
				t.Error(err)
			}
			within(t, failureDeadline, func() {
				waiting := make(chan error, 1)
				go func() { waiting <- ring.Barrier(ctx, comms[0]) }()
				closeAll(comms[1:])
				if err := <-waiting; err == nil {
					t.Error("a barrier is over without the ranks that have closed")
				}
			})
		})
	}
}
