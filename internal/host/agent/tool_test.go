package agent

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestPrepareTools(t *testing.T) {
	job := wire.Job{Ranks: []wire.Rank{{Rank: 4}, {Rank: 5, Program: 1}},
		Tools: []wire.Tool{{Rank: 5, Argv: wire.Texts{"gdb", "a"}, Terminal: "xterm"},
			{Rank: 4, Halt: true}}}
	find := func(r wire.Rank, argv []string) (string, error) {
		if r.Program != 1 || argv[1] != "a" {
			return "", wire.Refusef(wire.CodeNotFound, "hint", "%s of program %d was not found", argv[0], r.Program)
		}
		return "/bin/" + argv[0], nil
	}
	starts, err := prepareTools(job, find)
	check.That(t, err == nil && len(starts) == 2 && starts[5].Path == "/bin/gdb" && starts[5].Terminal == "xterm" &&
		len(starts[5].Argv) == 2 && starts[4].Halt && starts[4].Path == "", "%+v, %v", starts, err)
	for what, change := range map[string]func(*wire.Job){
		"the tool of rank 4: x of program 0 was not found": func(j *wire.Job) {
			j.Tools = []wire.Tool{{Rank: 4, Argv: wire.Texts{"x", ""}}}
		},
		"rank 6 is to have a tool, and is not here, has one, or is elastic": func(j *wire.Job) {
			j.Tools = []wire.Tool{{Rank: 6}}
		},
		"rank 4 is to have a tool, and is not here, has one, or is elastic": func(j *wire.Job) {
			j.Tools = []wire.Tool{{Rank: 4}, {Rank: 4}}
		},
		"rank 5 is to have a tool, and is not here, has one, or is elastic": func(j *wire.Job) {
			j.Elastic = &wire.Elastic{}
		},
	} {
		changed := job
		no := new(wire.Refuse)
		change(&changed)
		_, err := prepareTools(changed, find)
		check.That(t, errors.As(err, &no) && no.What == what, "%v, not %s", err, what)
	}
}

// A halted child is the program itself, stopped. It goes on when a debugger that had attached
// leaves it.
func TestHaltedChildWaitsForADebugger(t *testing.T) {
	runtime.LockOSThread() // the thread that started the child, and traces it
	out := filepath.Join(t.TempDir(), "out")
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "echo done >" + out},
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Setsid: true, Ptrace: true}})
	if err != nil {
		t.Skipf("this machine forbids ptrace: %v", err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	must.OK(t, haltChild(pid))
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	must.That(t, err == nil && status.Stopped() && status.StopSignal() == syscall.SIGSTOP, "%x, %v", status, err)
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	check.That(t, err == nil && string(name) == "sh\n", "the stopped program is %q, %v", name, err)
	check.Error(os.Stat(out)).Any(t, "it has run")
	resumed := make(chan struct{})
	go releaseChild(nil, func() (int, bool) { return pid, true }, func() {
		_ = syscall.Kill(-pid, syscall.SIGCONT)
		close(resumed)
	})
	must.OK(t, syscall.PtraceAttach(pid))
	_, err = syscall.Wait4(pid, &status, 0, nil)
	must.That(t, err == nil && status.Stopped(), "%x, %v", status, err)
	<-resumed
	must.OK(t, syscall.PtraceDetach(pid))
	_, err = syscall.Wait4(pid, &status, 0, nil)
	check.That(t, err == nil && status.ExitStatus() == 0, "%x, %v", status, err)
	text, err := os.ReadFile(out)
	check.That(t, err == nil && string(text) == "done\n", "%q, %v", text, err)
}

// A child that goes on without a debugger, or ends, needs no release.
func TestReleaseEndsWithoutADebugger(t *testing.T) {
	none := func() { t.Error("resumed") }
	releaseChild(nil, func() (int, bool) { return os.Getpid(), true }, none)
	releaseChild(nil, func() (int, bool) { return 0, false }, none)
	over := make(chan struct{})
	close(over)
	releaseChild(over, func() (int, bool) { return 0, true }, none)
}
