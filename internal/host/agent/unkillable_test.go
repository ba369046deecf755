package agent

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// oldGroup makes a cgroup of v1 for a test.
func oldGroup(t *testing.T, controller string) string {
	t.Helper()
	group := fmt.Sprintf("/sys/fs/cgroup/%s/test-%d-%s", controller, os.Getpid(), rand.Text())
	if err := os.Mkdir(group, 0o755); err != nil {
		lab.Skip(t, "no cgroup v1 can be made: "+err.Error())
	}
	t.Cleanup(func() {
		must.Until(t, "the end of "+group, func() bool { return syscall.Rmdir(group) == nil })
	})
	return group
}

func put(t *testing.T, text string, path ...string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(path...), []byte(text), 0))
}

// TestUnkillableProcessesAreNamed has a rank, and a child of a rank that ends, in a frozen cgroup
// of v1, where SIGKILL reaches nobody, as in a dead file system. The goal is an end 8 s after the
// grace.
func TestUnkillableProcessesAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		stop   bool
	}{
		"a rank":            {`echo $$; sleep 1000; :`, true},
		"a child of a rank": {`sleep 1000 & echo $!; read line; exit 0`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := oldGroup(t, "freezer")
			h := startHost(t)
			job := script(1, tc.script)
			job.Stdin = []int{2}
			h.run(job)
			h.awaitOutput(2)
			pid := must.Get(strconv.Atoi(strings.TrimSpace(h.printed(2, 1))))(t)
			put(t, strconv.Itoa(pid), group, "cgroup.procs")
			put(t, "FROZEN", group, "freezer.state")
			t.Cleanup(func() { put(t, "THAWED", group, "freezer.state") })
			began := time.Now()
			if tc.stop {
				h.tell(wire.TypeStop, wire.Stop{})
			} else if err := h.out.Send(wire.TypeStdin, inputStream, []byte("end\n")); err != nil {
				t.Fatal(err)
			}
			h.until("done", func() bool { return h.done })
			took := time.Since(began)
			check.That(t, took <= 12*time.Second, "it took %v", took)
			named := slices.ContainsFunc(h.left, func(p wire.Process) bool { return p.PID == pid && p.Name != "" })
			check.That(t, named, "%d is not among those that are named: %+v", pid, h.left)
			h.stdin.Close()
			<-h.gone
			put(t, "THAWED", group, "freezer.state") // SIGKILL has waited for it
			h.stop()
			check.That(t, h.code != 0 && strings.Contains(h.said(), "cannot be killed"),
				"the guard ended with %d and said %q", h.code, h.said())
			next := startHost(t) // which finds the empty group
			next.run(script(1, "exit 0"))
			next.finish()
			left := groupsOf(h.cmd.Process.Pid)
			check.That(t, len(left) == 0, "left behind: %v", left)
		})
	}
}

// TestForkBombIsBounded runs one whose host allows it 200 processes, in a group of the test's
// with 500, so that it can do no harm. The goal is an end 16 s after the stop.
func TestForkBombIsBounded(t *testing.T) {
	onRungs(t, func(t *testing.T, start func(*testing.T, ...string) *host) {
		outer := oldGroup(t, "pids")
		put(t, "500", outer, "pids.max")
		h := start(t, "AGENT_TEST_TASKS=200", "AGENT_TEST_GROUP="+outer)
		bounded := !strings.Contains(t.Name(), "tree")
		// On the last rung nothing bounds it but the test's own limit, under which the agent would
		// suffer. A shell that cannot fork ends; what it has started stays.
		bomb := `f() { sleep 1000 & f & f; }; (sleep 0.1; f) 2>/dev/null & sleep 1000 & wait`
		if !bounded {
			bomb = `f() { [ $1 = 0 ] || { f $(($1-1)) & f $(($1-1)) & sleep 1000; }; }; f 6; while :; do sleep 1; done`
		}
		h.run(script(1, `sleep 0.5; echo boom; `+bomb))
		h.awaitOutput(2)
		most := 0
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(
			50 * time.Millisecond) {
			groups, _ := filepath.Glob(filepath.Join(outer, "gorun-*", "cgroup.procs"))
			for _, g := range groups {
				text, _ := os.ReadFile(g)
				most = max(most, strings.Count(string(text), "\n"))
			}
		}
		check.That(t, !bounded || most <= 200 && most >= 50, "there were %d processes, and 200 were allowed", most)
		began := time.Now()
		h.tell(wire.TypeStop, wire.Stop{})
		h.until("done", func() bool { return h.done })
		took := time.Since(began)
		check.That(t, took <= 32*time.Second && len(h.left) == 0, "it took %v, and left %v", took, h.left)
		h.stop()
	})
}

// TestOrphansAreReaped has a rank that makes short orphans as fast as it can. The goal is that at
// most 5 zombies are there at any time, and 5 % of a core for the agent; the bounds are for a
// machine that is busy.
func TestOrphansAreReaped(t *testing.T) {
	must.HaveTime(t)
	h := running(t, script(1, `echo go; while :; do (: & : & : & : &); done`))
	h.awaitOutput(2)
	most := 0
	samples := 0
	began := time.Now()
	for time.Since(began) < 2*time.Second {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", h.hello.PID, h.hello.PID))
		zombies := 0
		for _, child := range strings.Fields(string(text)) {
			if stat, err := os.ReadFile("/proc/" + child + "/stat"); err == nil &&
				strings.Contains(string(stat), ") Z ") {
				zombies++
			}
		}
		must.OK(t, err)
		most = max(most, zombies)
		samples++
	}
	stat := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.hello.PID)))(t)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, _ := strconv.Atoi(fields[12])
	system, _ := strconv.Atoi(fields[13])
	cpu := float64(user+system) / 100 / time.Since(began).Seconds()
	t.Logf("at most %d zombies in %d samples, %.1f %% of a core", most, samples, 100*cpu)
	check.That(t, most <= 500 && cpu <= 0.5, "at most %d zombies, and %.0f %% of a core", most, 100*cpu)
	h.stop()
}
