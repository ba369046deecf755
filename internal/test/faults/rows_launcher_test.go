package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// again is how long a person takes to press Ctrl-C again. A sooner signal is a copy of the first.
const again = 400 * time.Millisecond

const trap = `trap "" TERM; echo up; while :; do sleep .05; done`

// Rows B4, B5, B8, B9 and G1: requests to stop, and readers that leave or stall.
func TestLauncherRows(t *testing.T) {
	b := namespaces(t, 2)
	b.row("B4 one Ctrl-C", func(t *testing.T, b *harness) { // goal: the grace and 0.5 s
		j, w := b.shell([]string{"--grace", "1"}, trap)
		b.ups(j, 4)
		at := b.signal(j, syscall.SIGINT)
		b.await(j, "gorun's answer", func() bool { return strings.Contains(j.Err.String(), "again to kill") })
		if took := time.Since(at); took > soon { // goal 0.1 s
			t.Errorf("it answered after %v", took)
		}
		b.judge(w, j, at, Expect{Codes: []int{130}, End: time.Second + soon, Clean: time.Second + soon})
	})
	// goals 1 s for the host that is there, 0.1 s to the third
	b.row("B5 two and three, with a host cut off", func(t *testing.T, b *harness) {
		j, w := b.shell([]string{"--grace", "60"}, trap)
		b.ups(j, 4)
		b.must(b.c.Cut(t.Context(), "f2"))
		press := func(word string) {
			_ = syscall.Kill(j.Launcher(), syscall.SIGINT)
			b.await(j, "gorun's answer", func() bool { return strings.Contains(j.Err.String(), word) })
		}
		press("again to kill")
		time.Sleep(again)
		at := time.Now()
		press("killing")
		b.await(j, "f1's ranks to end", func() bool { return len(j.On("f1", "sleep .05")) == 0 })
		took := time.Since(at)
		check.That(t, took <= 2*soon, "f1's ranks ended after %v", took)
		time.Sleep(again)
		at = b.signal(j, syscall.SIGINT)
		<-j.Ended()
		b.must(b.c.Restore(t.Context(), "f2"))
		b.must(b.c.Reset(t.Context(), "f0", "f2"))
		b.judge(w, j, at, Expect{Codes: []int{130}, End: soon, Clean: 15 * time.Second})
	})
	b.row("B8 the output has no reader", func(t *testing.T, b *harness) {
		j, w := b.shell(nil, `while :; do echo up; sleep .05; done`)
		b.await(j, "the ranks", func() bool { return strings.Count(j.Out.String(), "up\n") > 4 })
		at := time.Now()
		j.CloseOutput()
		b.judge(w, j, at, Expect{
			Codes: []int{141},
			End:   2 * soon,
			Clean: 2 * soon,
			Torn:  true,
		})
	})
	b.row("B9 the reader sleeps", func(t *testing.T, b *harness) {
		j, w := b.shell(nil, `exec yes "$(printf '%0100d' 0)"`)
		release := j.Out.Hold()
		time.Sleep(4 * time.Second) // of silence, in which heartbeats go on
		at := time.Now()
		select {
		case <-j.Ended():
			t.Error("the job has ended")
		default:
		}
		_ = syscall.Kill(j.Launcher(), syscall.SIGINT)
		j.Await(10*time.Second, func() bool { return strings.Contains(j.Err.String(), "again to kill") })
		if took := time.Since(at); took > 2*soon { // goal 1 s
			t.Errorf("Ctrl-C was heard after %v", took)
		}
		b.await(j, "the ranks to end", func() bool { return len(w.left(j)) == 0 })
		release()
		v := b.judge(w, j, at, Expect{Codes: []int{130}, End: 15 * time.Second, Clean: 15 * time.Second})
		check.That(t, v.RSS <= 64<<10, "the launcher had %d KiB", v.RSS)
	})
	b.row("G1 a storm of signals", func(t *testing.T, b *harness) {
		j, w := b.shell([]string{"--grace", "1"}, `trap '' USR1 USR2 TERM; echo up; while :; do sleep .05; done`)
		b.ups(j, 4)
		for i := range 200 {
			_ = syscall.Kill(j.Launcher(), []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
				syscall.SIGWINCH}[i%4])
			time.Sleep(5 * time.Millisecond)
		}
		at := time.Now()
		for range 2 {
			_ = syscall.Kill(j.Launcher(), syscall.SIGTERM)
			for range 50 {
				_ = syscall.Kill(j.Launcher(), syscall.SIGUSR1)
			}
		}
		b.judge(w, j, at, Expect{Codes: []int{143}, End: time.Second + soon, Clean: time.Second + soon})
		check.Equal(t, strings.Count(j.Err.String(), "again to kill"), 1, "stops were begun")
	})
}

// B1: the launcher is killed at twelve stages of a job.
func TestKilledLauncherLeavesNothing(t *testing.T) {
	b := namespaces(t, 2)
	for i := range 12 {
		j, w := b.shell(nil, `echo up; exec sleep 300`)
		time.Sleep(time.Duration(i*i) * 5 * time.Millisecond) // the moment is what differs
		at := b.signal(j, syscall.SIGKILL)
		// An agent waits 10 s for its launcher's hello.
		b.judge(w, j, at, Expect{Codes: []int{137}, End: soon, Clean: 11 * time.Second})
	}
	j, w := b.shell(nil, trap) // goal 7 s
	b.ups(j, 4)
	at := b.signal(j, syscall.SIGKILL)
	b.judge(w, j, at, Expect{Codes: []int{137}, End: soon, Clean: 9 * time.Second})
}

// B2: the launcher is killed while it uploads gorun. A partial upload never runs.
func TestPartialUploadNeverRuns(t *testing.T) {
	b := namespaces(t, 2)
	gorun := b.hideGorun()
	start := func() (*Job, *Watch) {
		return b.run(gorun, "-F", "{config}", "-np", "2", "-H", "f1,f2", "--prefix", "none", "echo", "up")
	}
	for i := range 4 {
		j, w := start()
		b.await(j, "the upload", func() bool { return partial(b.c) })
		time.Sleep(time.Duration(i*15) * time.Millisecond)
		at := time.Now()
		_ = syscall.Kill(j.Launcher(), syscall.SIGKILL) // it may be over
		b.judge(w, j, at, Expect{Codes: []int{137, 0}, End: soon, Clean: 12 * time.Second})
		for i := range b.c.Hosts {
			_ = os.RemoveAll(filepath.Join(b.c.Hosts[i].Home, ".cache/gorun"))
		}
	}
	j, w := start()
	at := time.Now()
	<-j.Ended()
	b.judge(w, j, at, Expect{Codes: []int{0}, End: 30 * time.Second, Clean: 30 * time.Second})
	check.That(t, j.Out.String() == "up\nup\n", "%q", &j.Out)
}

// hideGorun puts gorun where only the launcher's host sees it.
func (b *harness) hideGorun() string {
	b.t.Helper()
	dir := filepath.Join(b.c.Dir, "only-here")
	must.OK(b.t, os.Mkdir(dir, 0o755))
	must.OK(b.t, b.c.Disk(b.t.Context(), "f0", dir, 64<<10))
	must.Run(b.t, b.c.Command(b.t.Context(), "cp", binary("gorun"), dir))
	return filepath.Join(dir, "gorun")
}

// partial reports whether an upload to a host's cache has begun.
func partial(c *lab.Cluster) bool {
	for i := range c.Hosts {
		found, _ := filepath.Glob(filepath.Join(c.Hosts[i].Home, ".cache/gorun/*"))
		if len(found) > 0 {
			return true
		}
	}
	return false
}

// B10: the disk of an output folder fills up. The job goes on, and the loss is reported once.
func TestFullOutputDiskIsReportedOnce(t *testing.T) {
	b := namespaces(t, 2)
	dir := filepath.Join(b.c.Dir, "full")
	b.must(os.Mkdir(dir, 0o755))
	b.must(b.c.Disk(t.Context(), "f0", dir, 64))
	at := time.Now()
	j, w := b.shell([]string{"--output-filename", dir}, `head -c 200000 /dev/zero | tr '\0' x; echo; echo last`)
	<-j.Ended()
	b.judge(w, j, at, Expect{
		Codes: []int{0},
		End:   20 * time.Second,
		Clean: 20 * time.Second,
		Cause: `no space left|not saved`,
		Also:  `not saved|no space`,
	})
	check.Equal(t, strings.Count(j.Out.String(), "last\n"), 4, "ranks printed their last line")
}

// B13: one user starts many jobs at once on the same hosts.
func TestConcurrentJobsStayApart(t *testing.T) {
	b := loopback(t, 2)
	const jobs = 20
	w := NewWatch(b.c)
	var wg sync.WaitGroup
	var mu sync.Mutex
	all := make([]*Job, jobs)
	for i := range all {
		all[i], _ = b.gorun("-np", "2", "-H", "f1,f2", "--prefix", "none", "--start-timeout", "120", "sh", "-c",
			fmt.Sprintf(`echo job %d; exec %s`, i, binary("allreduce")))
	}
	for i, j := range all {
		wg.Go(func() {
			<-j.Ended()
			want := fmt.Sprintf("job %d\n", i)
			mu.Lock()
			defer mu.Unlock()
			out := j.Out.String()
			check.That(t, strings.Count(out, want) == 2 && strings.Count(out, "the sum is 1\n") == 2 &&
				strings.Count(out, "\n") == 4, "job %d: %q; %s", i, out, &j.Err)
		})
	}
	wg.Wait()
	for _, j := range all {
		b.judge(w, j, time.Now(), Expect{Codes: []int{0}, End: soon, Clean: 10 * time.Second})
	}
}
