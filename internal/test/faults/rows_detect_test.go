package faults

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// state returns a process's state letter as ps prints it: R, S, T.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	letter, _, _ := strings.Cut(after, " ")
	return letter
}

func allIn(letter string, pids []int) bool {
	for _, pid := range pids {
		if state(pid) != letter {
			return false
		}
	}
	return len(pids) > 0
}

// ticking starts four ranks on two hosts that print "up" and continue to print.
func (b *harness) ticking() (*Job, *Watch) {
	b.t.Helper()
	j, w := b.gorun("-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", binary("rank"), "-every", "20ms")
	b.await(j, "the ranks", func() bool { return strings.Count(j.Out.String(), "line") > 200 })
	return j, w
}

// end tells the ranks to exit with 0 and judges the job.
func (b *harness) end(w *Watch, j *Job) {
	b.t.Helper()
	at := time.Now()
	must.OK(b.t, j.Cmd.Process.Signal(syscall.SIGUSR1))
	b.judge(w, j, at, Expect{Codes: []int{0}, End: 5 * time.Second, Clean: 5 * time.Second})
}

func (b *harness) signal(j *Job, s syscall.Signal) time.Time {
	b.t.Helper()
	must.OK(b.t, j.Cmd.Process.Signal(s))
	return time.Now()
}

// within is await with a promised bound.
func (b *harness) within(limit time.Duration, what string, is func() bool) {
	b.t.Helper()
	began := time.Now()
	for !is() {
		must.That(b.t, time.Since(began) <= limit+10*time.Second, "waited in vain for %s", what)
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	check.That(b.t, took <= limit, "%s took %v, not %v", what, took, limit)
}

// suspend presses Ctrl-Z. Goal: the ranks are stopped within 1 s.
func (b *harness) suspend(j *Job) {
	b.t.Helper()
	b.signal(j, syscall.SIGTSTP)
	b.within(4*time.Second, "standing still", func() bool {
		return allIn("T", j.Processes(binary("rank"))[:]) && state(j.Launcher()) == "T"
	})
}

// B6: Ctrl-Z stops the ranks and gorun, and fg continues them. The lease is for launchers that stop
// without notice.
func TestCtrlZStopsAndContinuesTheJob(t *testing.T) {
	t.Parallel()
	b := loopback(t, 2)
	j, w := b.ticking()
	for range 2 {
		b.suspend(j)
		time.Sleep(4 * time.Second)
		check.That(t, allIn("T", j.Processes(binary("rank"))), "the ranks did not stay still")
		before := j.Out.String()
		b.signal(j, syscall.SIGCONT)
		b.within(2500*time.Millisecond, "going on", func() bool { return len(j.Out.String()) > len(before)+2000 })
	}
	b.end(w, j)
}

// B6: gorun is killed while it is stopped.
func TestLauncherKilledWhileStopped(t *testing.T) {
	t.Parallel()
	b := loopback(t, 2)
	j, w := b.ticking()
	b.suspend(j)
	at := b.signal(j, syscall.SIGKILL)
	b.judge(w, j, at, Expect{Codes: []int{137}, End: 2 * time.Second, Clean: 4 * time.Second})
}

// B6: a host is cut off while gorun is stopped. Its agent notices on its own.
func TestHostCutOffWhileLauncherIsStopped(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 2)
	j, w := b.gorun("-np", "2", "-H", "f1,f2", "sh", "-c", dies)
	b.ups(j, 2)
	b.signal(j, syscall.SIGTSTP)
	b.within(4*time.Second, "standing still", func() bool {
		return state(j.Launcher()) == "T" && allIn("T", j.Processes("sleep 300"))
	})
	b.must(b.c.Cut(t.Context(), "f2"))
	b.within(12*time.Second, "the end of the far side", func() bool { return len(j.Processes("sleep 300")) == 1 })
	at := b.signal(j, syscall.SIGCONT)
	v := w.judge(j, at, Expect{
		Codes: []int{125},
		Cause: "host f2: lost the connection",
		End:   8 * time.Second,
		Clean: 8 * time.Second,
	})
	for _, broken := range v.Violations {
		t.Errorf("%s; stderr:\n%s", broken, &j.Err)
	}
}

// B7: a launcher is stopped without notice, for less than the lease.
func TestStoppedLauncherKeepsTheJob(t *testing.T) {
	t.Parallel()
	b := loopback(t, 2)
	j, w := b.ticking()
	b.signal(j, syscall.SIGSTOP)
	time.Sleep(10 * time.Second)
	b.signal(j, syscall.SIGCONT)
	before := j.Out.String()
	b.await(j, "more output", func() bool { return len(j.Out.String()) > len(before)+2000 })
	b.end(w, j)
}

// C2: a launcher waits for an agent that is stopped for 20 s; after 30 s the agent counts as hung,
// and ends itself when it continues.
func TestStoppedAgentCountsAsHung(t *testing.T) {
	t.Parallel()
	b := loopback(t, 2)
	j, w := b.gorun("-np", "2", "-H", "f1,f2", "sh", "-c", dies)
	b.ups(j, 2)
	agent := agentOf(j)
	at := time.Now()
	b.must(syscall.Kill(agent, syscall.SIGSTOP))
	select {
	case <-j.Ended():
		t.Errorf("ended after %v:\n%s", time.Since(at), &j.Err)
	case <-time.After(27 * time.Second):
	}
	<-j.Ended()
	_ = syscall.Kill(agent, syscall.SIGCONT) // its guard may have ended it
	b.judge(w, j, at, Expect{
		Codes: []int{125},
		Cause: `host f[12]: no word from the agent for 3\ds`,
		End:   36 * time.Second,
		Clean: 40 * time.Second,
	})
}

// C1: the processes that carry the job on a host are killed. Goal: noticed and named within 0.5 s.
func TestKilledAgentGuardOrSessionIsNamed(t *testing.T) {
	t.Parallel()
	b := loopback(t, 2)
	for _, tc := range []struct {
		name  string
		args  []string
		pid   func(j *Job) int
		cause string
	}{
		{"agent", nil, agentOf, `host f[12]: the agent was killed by signal 9 \(SIGKILL\)`},
		{"guard", nil, func(j *Job) int { return lab.Parent(agentOf(j)) }, `host f[12]: the agent was killed`},
		{"guard, and ranks take their time", []string{"--grace", "2s"}, func(j *Job) int {
			return lab.Parent(agentOf(j))
		}, `host f[12]: the agent was killed .*\(after [01]\.`},
		{"sshd's session", nil, func(j *Job) int {
			return lab.Parent(lab.Parent(agentOf(j)))
		}, `host f[12]: lost the connection to the agent: .*(without a status|connection lost)`},
		{"ssh", []string{"--launcher", "system-ssh"}, func(j *Job) int { return j.Processes("ssh -o")[0] },
			`host f[12]: lost the connection to the agent: the ssh to f[12] was killed by signal 9 \(SIGKILL\) on this machine`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newHarness(t, b.c)
			ranks := dies
			late := time.Duration(0)
			if len(tc.args) > 0 && tc.args[0] == "--grace" {
				ranks = "trap '' TERM; echo up; exec sleep 300"
				late = 2 * time.Second
			}
			j, w := b.gorun(append(tc.args, "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", ranks)...)
			b.ups(j, 4)
			at := time.Now()
			b.must(syscall.Kill(tc.pid(j), syscall.SIGKILL))
			v := b.judge(w, j, at, Expect{
				Codes: []int{125},
				Cause: tc.cause,
				End:   late + 1500*time.Millisecond,
				Clean: late + 2500*time.Millisecond,
			})
			t.Logf("%d ms, clean after %d ms: %s", v.EndMS, v.CleanMS, v.Cause)
		})
	}
}

// agentOf returns the agent of a host; its ranks are its children.
func agentOf(j *Job) int { return lab.Parent(j.Processes("sleep 300")[0]) }

// A2: ranks of two hosts fail one after the other, and the first is the cause. The goal is 99.5 %
// for 20 ms or more between them. The test runs alone, since ranks that wait for a core end late.
func TestFirstOfTwoFailuresIsTheCause(t *testing.T) {
	b := loopback(t, 2)
	// Both read this machine's clock and print when they end.
	script := `at=$(($(date +%s%N) / 1000000000 + 1)); at=$((at * 1000 + RANK * 60)); while [ $(($(date +%s%N) / 1000000)) -lt $at ]; do :; done; date +"$RANK %s%N"; exit $((3 + RANK))`
	wrong := 0
	rounds := 0
	for range 8 {
		j, w := b.gorun("-np", "2", "-H", "f1,f2", "--prefix", "none", "bash", "-c", script)
		<-j.Ended()
		var ends [2]int64
		for line := range strings.Lines(j.Out.String()) {
			var rank int
			var at int64
			if n, _ := fmt.Sscan(line, &rank, &at); n == 2 && rank < 2 {
				ends[rank] = at
			}
		}
		first := 0
		if ends[0] == 0 || (ends[1] != 0 && ends[1] < ends[0]) {
			first = 1
		}
		if gap := ends[1-first] - ends[first]; ends[1-first] != 0 && gap < 40e6 {
			continue // the machine had other things to do
		}
		rounds++
		v := w.judge(j, time.Now(), Expect{
			Codes: []int{3 + first},
			Cause: fmt.Sprintf("rank %d on f%d exited with code %d", first, first+1, 3+first),
			End:   time.Second,
			Clean: 5 * time.Second,
		})
		if len(v.Violations) > 0 {
			wrong++
			t.Logf("%v; %d", v.Violations, ends)
		}
	}
	check.That(t, wrong <= 0 && rounds != 0, "%d of %d first causes were wrong", wrong, rounds)
}

// C13: ranks overload a host twenty times, and no agent or rank counts as dead. The test runs
// alone.
func TestOverloadedHostIsNotLost(t *testing.T) {
	b := loopback(t, 2)
	ranks := 20 * runtime.NumCPU()
	j, w := b.gorun("-np", fmt.Sprint(ranks), "-H", fmt.Sprintf("f1:%d,f2:%d", ranks/2, ranks/2), "--start-timeout",
		"2m", "sh", "-c", "trap 'exit 0' USR1; echo up; while :; do :; done")
	must.That(t, j.Await(time.Minute, func() bool { return strings.Count(j.Out.String(), "up\n") == ranks }),
		"the ranks do not run: %s", &j.Err)
	time.Sleep(8 * time.Second)
	at := b.signal(j, syscall.SIGUSR1)
	b.judge(w, j, at, Expect{Codes: []int{0}, End: 20 * time.Second, Clean: 20 * time.Second})
}
