package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

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
