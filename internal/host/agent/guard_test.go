package agent

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/wire"
)

// stubborn is a rank that ends only by KILL, with children that have left its
// session and its group.
const stubborn = `trap '' TERM HUP INT; (setsid sleep 1000 &); setsid sleep 1000 & sleep 1000 & echo ready; while :; do sleep 0.1; done`

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// TestNothingOutlivesAnAgent takes an agent or its guard away in every way, under ranks that
// do not want to end.
func TestNothingOutlivesAnAgent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(t *testing.T, h *host)
		code int // the guard's; 201: it swept up after a killed agent; -1: it was killed
	}{
		"the launcher ends": {func(_ *testing.T, h *host) { h.stdin.Close() }, 0},
		"the agent is killed": {func(t *testing.T, h *host) {
			kill(t, h.hello.PID, syscall.SIGKILL)
		}, 201},
		"the agent gets TERM": {func(t *testing.T, h *host) {
			kill(t, h.hello.PID, syscall.SIGTERM)
		}, 0},
		"the guard is killed": {func(t *testing.T, h *host) {
			kill(t, h.cmd.Process.Pid, syscall.SIGKILL)
		}, -1},
		"the guard gets TERM": {func(t *testing.T, h *host) {
			kill(t, h.cmd.Process.Pid, syscall.SIGTERM)
		}, 0},
		"the guard gets HUP, as from a terminal": {func(t *testing.T, h *host) {
			kill(t, h.cmd.Process.Pid, syscall.SIGHUP)
		}, 0},
		"the agent is stopped, then the launcher ends": {func(t *testing.T, h *host) {
			kill(t, h.hello.PID, syscall.SIGSTOP)
			h.stdin.Close()
		}, 201},
		"the agent is stopped, then killed": {func(t *testing.T, h *host) {
			kill(t, h.hello.PID, syscall.SIGSTOP)
			kill(t, h.hello.PID, syscall.SIGKILL)
		}, 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := running(t, script(2, stubborn))
			h.awaitOutput(2, 3)
			tc.do(t, h)
			h.awaitEnd()
			h.stop() // which fails if anything is left
			if h.code != tc.code {
				t.Errorf("the guard ended with %d, want %d", h.code, tc.code)
			}
		})
	}
}

// TestGuardRemovesTheFolderOfAKilledAgent makes the folder as services does for Open MPI: only the
// guard can remove it then.
func TestGuardRemovesTheFolderOfAKilledAgent(t *testing.T) {
	t.Parallel()
	h := running(t, script(1, "echo $GORUN_GUARD; exec sleep 1000"))
	h.awaitOutput(2)
	sum := fnv.New32a()
	sum.Write([]byte(strings.TrimSpace(h.printed(2, 1))))
	folder := fmt.Sprintf("/dev/shm/gorun-mpi-%08x-test", sum.Sum32())
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(folder) })
	kill(t, h.hello.PID, syscall.SIGKILL)
	h.awaitEnd()
	h.stop()
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", folder, err)
	}
}

// TestRanksDieWithGuardAndAgent kills both at once: only the kernel can end the ranks.
func TestRanksDieWithGuardAndAgent(t *testing.T) {
	t.Parallel()
	h := running(t, script(2, "trap '' TERM; echo ready; while :; do read x </dev/zero; done"))
	h.awaitOutput(2, 3)
	kill(t, h.cmd.Process.Pid, syscall.SIGKILL)
	kill(t, h.hello.PID, syscall.SIGKILL)
	<-h.gone
	h.stop()
}

func TestRanksStandAlone(t *testing.T) {
	t.Parallel()
	// The shell lists its own files with builtins: starting another program would open a pipe for a
	// moment.
	const files = `for f in /proc/$$/fd/*; do printf '%s ' "${f##*/}"; done; echo; `
	h := running(t,
		script(1, files+`cat /proc/$$/oom_score_adj; cat /proc/$$/stat; exec grep -E 'Sig(Blk|Ign)' /proc/self/status`))
	h.finish()
	lines := strings.Split(h.printed(2, 1), "\n")
	if len(lines) != 6 {
		t.Fatalf("printed %q", lines)
	}
	// What this test was started with, everything below it has; a rank has the socket for PMI as
	// well, so the shell's own look at the folder is one further.
	plain, err := exec.Command("/bin/sh", "-c", files).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range strings.Fields(lines[0]) {
		if !slices.Contains(append(strings.Fields(string(plain)), strconv.Itoa(services.FirstFD),
			strconv.Itoa(services.FirstFD+1)), file) {
			t.Errorf("open files are %s, want none but %s", lines[0], plain)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range lines[3:5] {
		name, mask, _ := strings.Cut(line, ":\t")
		n, err := strconv.ParseUint(mask, 16, 64)
		n &^= 3 << 31 // signals 32 and 33 are the C library's own, of which race-built tests have one
		if inherited := strings.Contains(string(status), line+"\n"); err != nil || (n != 0 && !inherited) {
			t.Errorf("%s is %s: ranks must start with signals as after a login", name, mask)
		}
	}
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	if lines[1] != "500" && lines[1] != strings.TrimSpace(string(own)) {
		t.Errorf("oom_score_adj is %s", lines[1])
	}
	fields := strings.Fields(lines[2])
	if pid := fields[0]; fields[4] != pid || fields[5] != pid {
		t.Errorf("pid %s has group %s and session %s", pid, fields[4], fields[5])
	}
	if ppid, _ := strconv.Atoi(fields[3]); ppid != h.hello.PID {
		t.Errorf("the parent is %d, not the agent, %d", ppid, h.hello.PID)
	}
}

func TestGuardNeedsItsAgent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", guardWord, "nonce") // a guard is a subreaper for ever, so not in this process
	cmd.Env = append(os.Environ(), "AGENT_TEST_PROGRAM=/no/such/agent", quickExit)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != wire.CodeHostFailed ||
		!strings.Contains(string(out), "start the agent: no such file or directory") {
		t.Errorf("%q, %v", out, err)
	}
}
