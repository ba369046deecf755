package elastic

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func script(t *testing.T, text string) Script {
	file := filepath.Join(t.TempDir(), "hosts.sh")
	// a child that another test forks now would keep it open for writing, so that it could not be
	// run
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	must.OK(t, err)
	return Script{Argv: []string{file}}
}

func TestScript(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want, err string }{
		{"#!/bin/sh\necho a:2; echo b\n", "a:2\nb\n", ""},
		{"echo no interpreter is named\n", "no interpreter is named\n", ""},
		{"#!/bin/sh\necho a; echo oh dear >&2; exit 3\n", "", "exit status 3: oh dear"},
		{"#!/bin/sh\nkill -9 $$\n", "", "signal: killed"},
		{"#!/does/not/exist\n", "", "no such file"},
		{"#!/bin/sh\nyes\n", "", "printed more than 1048576 bytes"},
		{"#!/bin/sh\nsleep 1000 & echo a\n", "a\n", ""}, // leaves a process that keeps the output open
	}
	for _, tt := range tests {
		out, err := script(t, tt.text).Run(t.Context())
		switch {
		case tt.err == "" && (err != nil || string(out) != tt.want):
			t.Errorf("%q: %.40q, %v", tt.text, out, err)
		case tt.err != "" && (err == nil || out != nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: %.40q, %v\nwant %s", tt.text, out, err, tt.err)
		}
	}
}

func TestScriptThatCannotBeRun(t *testing.T) {
	s := script(t, "")
	must.OK(t, os.Chmod(s.Argv[0], 0o644))
	check.Error(s.Run(t.Context())).Is(t, os.ErrPermission)
}

// Run kills all processes of the script's group, however the script ends.
func TestScriptLeavesNothing(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	for _, end := range []string{"exit 0", "exit 1", "wait", "sleep 1000"} {
		pids := filepath.Join(t.TempDir(), "pids")
		s := script(t, "#!/bin/sh\ntrap '' TERM\n(trap '' TERM HUP; exec sleep 1000) & echo $! >"+pids+"\necho $$ >>"+
			pids+"\n"+end+"\n")
		s.Timeout = time.Second
		began := time.Now()
		_, err := s.Run(t.Context())
		if hangs := end == "wait" || end == "sleep 1000"; hangs &&
			(err == nil || !strings.Contains(err.Error(), "within 1s")) {
			t.Errorf("%s: %v", end, err)
		}
		if took := time.Since(began); took > 8*time.Second { // 1 s, and delays of this machine
			t.Errorf("%s: took %v", end, took)
		}
		text, err := os.ReadFile(pids)
		must.OK(t, err)
		for _, word := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(word)
			if !isGone(pid) {
				t.Errorf("%s: process %d is alive", end, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// isGone waits until a killed process has ended; it may remain a zombie.
func isGone(pid int) bool {
	for range 300 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// A process that left the group keeps the output open; Run does not wait for it.
func TestScriptWhoseChildEscaped(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	out, err := script(t, "#!/bin/sh\nsetsid sh -c 'echo $$ >"+file+"; echo a; exec sleep 30' &\nwhile [ ! -s "+file+
		" ]; do :; done; sleep 0.2\n").Run(t.Context())
	if text, err := os.ReadFile(file); err != nil {
		t.Error(err)
	} else if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil ||
		syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("it should be alive: %q, %v", text, err)
	}
	check.That(t, string(out) == "a\n" && err == nil, "%q, %v", out, err)
}

func TestScriptEndsWithItsContext(t *testing.T) {
	t.Parallel()
	why := errors.New("the job is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
	check.Error(script(t, "#!/bin/sh\nsleep 1000\n").Run(ctx)).Is(t, why)
}
