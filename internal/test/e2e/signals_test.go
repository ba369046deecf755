package e2e

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/golden"
)

// Signals of docs/signals.md that users seldom send.
func TestSeldomSignals(t *testing.T) {
	// Under nohup gorun would ignore SIGHUP. A signal that the test process catches is not ignored in its children.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, tc := range []struct {
		name   string
		script string
		first  syscall.Signal
		then   syscall.Signal // when gorun has answered the first; 0: none
		code   int
	}{
		{"HUP", "trap 'exit 0' TERM", syscall.SIGHUP, 0, 129},
		{"QUIT", "trap 'exit 0' TERM", syscall.SIGQUIT, 0, 2},
		{"TERM, then INT", "trap '' TERM", syscall.SIGTERM, syscall.SIGINT, 143},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, nil, "-np", "2", "--grace", "60", "sh", "-c", tc.script+"; echo ready; while :; do sleep .05; done")
			await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "ready") == 2 })
			signalRun(t, r, tc.first)
			if tc.then != 0 {
				await(t, "a word of gorun's", func() bool { return strings.Contains(r.err.String(), "again") })
				signalRun(t, r, tc.then)
			}
			if code := r.wait(); code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, golden.Clip(r.err.String()))
			}
			r.nothingLeft(7 * time.Second)
		})
	}
}

// gorun's stdout and stderr are one pipe that nobody reads any more (2>&1 | less, or tee on a dead file system). A stop request
// still ends the job, although gorun's own messages block on that pipe.
func TestSignalWhileNobodyReadsAnything(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	steps, stepsIn, err := os.Pipe() // of --json-events, which nobody reads either
	if err != nil {
		t.Fatal(err)
	}
	defer steps.Close()
	defer stepsIn.Close()
	cmd := exec.CommandContext(t.Context(), binary("gorun"), "-np", "2", "--grace", "1", "--json-events", "fd:3", "yes")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = w, w, []*os.File{stepsIn}
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)                     // the pipe is full
	late := time.AfterFunc(20*time.Second, func() { // the goal is 2 s
		t.Error("it did not end")
		_ = cmd.Process.Kill()
	})
	defer late.Stop()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}
