package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// rungs are the kinds of cages, by their description in a ready.
func rungs() map[string]contain.Rung {
	return map[string]contain.Rung{"cgroup v2": contain.GroupV2, "cgroup v1 freezer": contain.FreezerV1,
		"their process tree": contain.Tree}
}

// onRungs runs a test on every rung that this machine has.
func onRungs(t *testing.T, test func(t *testing.T, start func(t *testing.T, env ...string) *host)) {
	for name, rung := range rungs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self := must.Get(contain.Self())(t)
			probe := contain.Make(self, rung)
			is := probe.String()
			probe.Remove()
			if !strings.HasPrefix(is, name) {
				lab.Skip(t, fmt.Sprintf("ranks would be contained by %s", is))
			}
			test(t, func(t *testing.T, env ...string) *host {
				t.Helper()
				return startHost(t, append(env, fmt.Sprintf("AGENT_TEST_RUNG=%d", rung))...)
			})
		})
	}
}

// groupsOf finds the cgroups that a guard has made, wherever they are.
func groupsOf(guard int) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "gorun-") &&
			strings.Contains(d.Name(), fmt.Sprintf("-%d-", guard)) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// daemon is a script that leaves a process which shows none of its origin: three generations down,
// in a session of its own, without files, under another name and with an empty environment. Only
// its command line has the mark. It makes a file when it is there.
func daemon(mark string) string {
	return `ln -sf /bin/sh kworker; (setsid env -i /bin/sh -c '(setsid ./kworker -c "exec <&- >&- 2>&-; trap : TERM HUP; : >there; while :; do sleep 0.1; done # ` + mark + `" &)' &); `
}

// waitDaemon waits until a rank that works in dir has printed, and its daemon is there.
func (h *host) waitDaemon(dir string) {
	h.t.Helper()
	h.until("the rank and its daemon", func() bool {
		_, err := os.Stat(filepath.Join(dir, "there"))
		return len(h.output[wire.OutputStream(2, 1)]) > 0 && err == nil
	})
}

// TestDaemonsEndWithTheJob ends jobs of ranks that ignore signals and leave daemons in every way
// that there is, on every rung.
func TestDaemonsEndWithTheJob(t *testing.T) {
	t.Parallel()
	ofAgent := func(sig syscall.Signal) func(*host) { return func(h *host) { kill(h.t, h.hello.PID, sig) } }
	ofGuard := func(sig syscall.Signal) func(*host) { return func(h *host) { kill(h.t, h.cmd.Process.Pid, sig) } }
	onRungs(t, func(t *testing.T, start func(*testing.T, ...string) *host) {
		for name, tc := range map[string]struct {
			end  func(h *host)
			code int // the guard's; 201: it swept up after a killed agent; -1: it was killed
		}{
			"the rank ends": {func(h *host) {
				h.tell(wire.TypeSignal, wire.Signal{Number: int(syscall.SIGUSR1)})
			}, 0},
			"the rank kills itself": {func(h *host) {
				h.tell(wire.TypeSignal, wire.Signal{Number: int(syscall.SIGUSR2)})
			}, 0},
			"the launcher stops it": {func(h *host) {
				h.tell(wire.TypeStop, wire.Stop{Grace: 100 * time.Millisecond})
			}, 0},
			"the launcher is gone":                   {func(h *host) { h.stdin.Close() }, 0},
			"the agent is killed":                    {ofAgent(syscall.SIGKILL), 201},
			"the agent gets TERM":                    {ofAgent(syscall.SIGTERM), 0},
			"the guard is killed":                    {ofGuard(syscall.SIGKILL), -1},
			"the guard gets TERM":                    {ofGuard(syscall.SIGTERM), 0},
			"the guard gets HUP, as from a terminal": {ofGuard(syscall.SIGHUP), 0},
			"the agent is stopped, then the launcher is gone": {func(h *host) {
				ofAgent(syscall.SIGSTOP)(h)
				h.stdin.Close()
			}, 201},
			"the agent is stopped, then killed": {func(h *host) {
				ofAgent(syscall.SIGSTOP)(h)
				ofAgent(syscall.SIGKILL)(h)
			}, 201},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := start(t)
				hidden := lab.NewMark()
				job := script(2, daemon(hidden)+`trap '' TERM HUP INT; trap 'exit 0' USR1; trap 'kill -9 $$' USR2;
					(setsid sleep 1000 &); setsid sleep 1000 & sleep 1000 & echo ready; while :; do sleep 0.1; done`)
				dir := t.TempDir()
				job.Programs[0].Wdir = wire.Text(dir)
				h.run(job)
				h.waitDaemon(dir)
				h.awaitOutput(3)
				tc.end(h)
				h.awaitDone()
				h.stop()
				check.Equal(t, h.code, tc.code, "the guard ended with")
				lab.NoneLeft(t, hidden)
				must.Until(t, "the end of the cgroups", func() bool { return len(groupsOf(h.cmd.Process.Pid)) == 0 })
			})
		}
	})
}

// TestTheNextGorunEndsWhatIsLeft kills guard and agent at once. What is no direct child of the
// agent lives on until the next guard.
func TestTheNextGorunEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	onRungs(t, func(t *testing.T, start func(*testing.T, ...string) *host) {
		h := start(t)
		hidden := lab.NewMark()
		leave := `(setsid sh -c 'trap : TERM HUP; : >there; while :; do sleep 0.1; done # ` + hidden + `' &); `
		if !strings.Contains(t.Name(), "tree") { // on the other rungs its place tells whose it is
			leave = daemon(hidden)
		}
		job := script(1, leave+`echo $GORUN_GUARD; while :; do sleep 0.1; done`)
		dir := t.TempDir()
		job.Programs[0].Wdir = wire.Text(dir)
		h.run(job)
		h.waitDaemon(dir)
		guard := strings.TrimSpace(h.printed(2, 1))

		// A process that only has the environment, or runs below a younger agent, is no leftover.
		stranger := exec.Command("sleep", "1000")
		stranger.Env = append(os.Environ(), contain.Variable+"="+guard)
		must.OK(t, stranger.Start())
		defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
		other := start(t)
		other.run(script(1, `GORUN_GUARD=`+guard+` sleep 1000 & echo $!; wait`))
		other.awaitOutput(2)

		kill(t, h.cmd.Process.Pid, syscall.SIGKILL)
		kill(t, h.hello.PID, syscall.SIGKILL)
		<-h.gone
		_ = h.cmd.Wait()
		next := start(t)
		next.run(script(1, "exit 0"))
		next.finish()
		lab.NoneLeft(t, hidden)
		must.Until(t, "the end of the cgroups", func() bool { return len(groupsOf(h.cmd.Process.Pid)) == 0 })
		check.OK(t, syscall.Kill(stranger.Process.Pid, 0), "a stranger was killed for its environment")
		var pid int
		if _, err := fmt.Sscan(other.printed(2, 1), &pid); err != nil || syscall.Kill(pid, 0) != nil {
			t.Errorf("a process of another job was killed for its environment: %d, %v", pid, err)
		}
		other.stop()
	})
}

// TestAnAgentWithoutGuardIsNoLeftover starts an agent beside one that has lost its guard and gives
// its ranks their grace.
func TestAnAgentWithoutGuardIsNoLeftover(t *testing.T) {
	t.Parallel()
	onRungs(t, func(t *testing.T, start func(*testing.T, ...string) *host) {
		h := start(t)
		job := script(1, `trap 'sleep 1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
		job.Grace = 4 * time.Second
		h.run(job)
		h.awaitOutput(2)
		kill(t, h.cmd.Process.Pid, syscall.SIGKILL)
		next := start(t)
		next.run(script(1, "exit 0"))
		next.finish()
		h.awaitEnd()
		e, ended := h.exits[2]
		check.That(t, !ended || e.Signal == 0, "the rank, which wanted to end by itself, ended as %+v", e)
		h.stop()
	})
}
