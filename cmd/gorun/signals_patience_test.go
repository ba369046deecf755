package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// stuckWriter takes nothing until it is let go.
type stuckWriter struct{ release chan struct{} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

// What gorun says waits for whoever reads it until the user wants the end, and then no longer.
func TestPatientWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, inHaste := stuckWriter{make(chan struct{})}, newHaste()
		defer close(w.release)
		p := &patient{w: w, haste: inHaste}
		time.AfterFunc(time.Hour, inHaste.come)
		began := time.Now()
		for range 3 {
			if n, err := p.Write([]byte("x")); n != 0 || err != errGaveUp {
				t.Errorf("%d, %v", n, err)
			}
		}
		if took := time.Since(began); took != time.Hour+stuckTime {
			t.Errorf("took %v", took)
		}
		inHaste.come() // again
	})
}

// gorun's stdout and stderr are one pipe that nobody reads any more (2>&1 | less, or tee on a dead file system). Whoever stops the job
// gets its end all the same: gorun's own words, which go there too, were waited for without end.
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
