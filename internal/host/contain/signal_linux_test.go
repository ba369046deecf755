package contain

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// TestProgramsGetASignalOnce signals process groups in which programs count.
func TestProgramsGetASignalOnce(t *testing.T) {
	if err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("unshare makes no namespaces here: %v", err)
	}
	const program = `trap "echo got" TERM; echo up; for i in 1 2 3 4 5 6 7 8 9 10; do sleep .1; done; true`
	// The signal may come before the shell has taken note of its child.
	env := append(os.Environ(), "P="+program, `PASS=trap 'if [ "$c" ]; then kill -TERM $c; else late=yes; fi' TERM`,
		`WAIT=[ -z "$late" ] || kill -TERM $c; while kill -0 $c 2>/dev/null; do wait $c; done`)
	// A starter passes signals on to the command that it starts.
	starter := func(command string) string { return `eval "$PASS"; ` + command + ` & c=$!; eval "$WAIT"` }
	inside := func(script string) string { return `unshare -m sh -c '` + script + `'` }
	const term = syscall.SIGTERM
	for name, tt := range map[string]struct {
		script   string
		programs int
		signal   syscall.Signal
		got      int
	}{
		"a program":                {`eval "$P"`, 1, term, 1},
		"its child too":            {`sh -c "$P" & eval "$P"; wait`, 2, term, 2},
		"a starter":                {starter(inside(`eval "$P"`)), 1, term, 1},
		"a starter of unshare":     {starter(`unshare -mpf sh -c "$P"`), 1, term, 1},
		"a shell in a container":   {starter(inside(`sh -c "$P"; true`)), 1, term, 1},
		"unshare":                  {`unshare -mpf sh -c "$P"`, 1, term, 1},
		"a program in a namespace": {`exec unshare -m sh -c "$P"`, 1, term, 1},
		"SIGKILL":                  {starter(inside(`eval "$P"`)), 1, syscall.SIGKILL, 0},
		"a program beside":         {`sh -c "$P" & ` + starter(inside(`eval "$P"`)) + `; wait`, 2, term, 2},
	} {
		cmd := exec.Command("sh", "-c", tt.script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Env = env
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		must.OK(t, err)
		up := 0
		got := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "got") {
				got++
			} else if up++; up == tt.programs {
				check.OK(t, SignalGroup(cmd.Process.Pid, tt.signal), name)
			}
		}
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		check.That(t, up == tt.programs && got == tt.got,
			"%s: %d of %d programs ran, and the signal was got %d times, want %d", name, up, tt.programs, got, tt.got)
	}
	check.Error(SignalGroup(os.Getpid()+1<<22, syscall.SIGTERM)).Is(t, syscall.ESRCH, "a group that is not there")
}
