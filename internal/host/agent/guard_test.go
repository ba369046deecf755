package agent

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	must.OK(t, syscall.Kill(pid, sig))
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
	must.That(t, len(lines) == 6, "printed %q", lines)
	// What this test was started with, everything below it has; a rank has the socket for PMI as
	// well, so the shell's own look at the folder is one further.
	plain := must.Get(exec.Command("/bin/sh", "-c", files).Output())(t)
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
	check.That(t, lines[1] == "500" || lines[1] == strings.TrimSpace(string(own)), "oom_score_adj is %s", lines[1])
	fields := strings.Fields(lines[2])
	pid := fields[0]
	check.That(t, fields[4] == pid && fields[5] == pid, "pid %s has group %s and session %s", pid, fields[4], fields[5])
	ppid, _ := strconv.Atoi(fields[3])
	check.That(t, ppid == h.hello.PID, "the parent is %d, not the agent, %d", ppid, h.hello.PID)
}

func TestGuardNeedsItsAgent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", guardWord, "nonce") // a guard is a subreaper for ever, so not in this process
	cmd.Env = append(os.Environ(), "AGENT_TEST_PROGRAM=/no/such/agent", lab.QuickExit)
	out, err := cmd.CombinedOutput()
	check.That(t, cmd.ProcessState.ExitCode() == wire.CodeHostFailed &&
		strings.Contains(string(out), "start the agent: no such file or directory"), "%q, %v", out, err)
}

// The memory that Open MPI's ranks share goes also when their agent is killed, and cannot remove
// it.
func TestOpenMPI4LeavesNothingWithoutItsAgent(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	job := script(1,
		`d=$OMPI_MCA_btl_vader_backing_directory; echo shared >$d/vader_segment; echo $d; while :; do sleep 0.1; done`)
	job.MPI = wire.MPI{Way: wire.MPIOpenMPI4, OpenMPI4: []byte("library")}
	h.run(job)
	stream := wire.OutputStream(2, 1)
	h.until("the rank", func() bool { return strings.HasSuffix(string(h.output[stream]), "\n") })
	folder := strings.TrimSpace(h.printed(2, 1))
	defer os.RemoveAll(folder)
	text, err := os.ReadFile(folder + "/vader_segment")
	must.That(t, string(text) == "shared\n" && err == nil, "%q, %v", text, err)
	kill(t, h.hello.PID, syscall.SIGKILL)
	h.awaitEnd()
	h.stop()
	_, err = os.Stat(folder)
	check.That(t, os.IsNotExist(err), "the folder is still there: %v", err)
}
