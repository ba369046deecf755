package lab

import (
	"os/exec"
	"testing"
)

// StartProcess starts a program that writes a byte when it has begun, waits for that, and ends it
// with the test. It returns its process.
func StartProcess(t testing.TB, name string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
