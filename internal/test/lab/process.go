package lab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// QuickExit keeps a process under the race detector from lingering a second at its end.
const QuickExit = "GORACE=atexit_sleep_ms=0"

// NewMark returns a variable for the environment of all processes of one test.
func NewMark() string { return "TEST_MARK=" + rand.Text() }

// Until polls for something that must become true within 20 s, on a machine that is busy.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	const timeout = 20 * time.Second
	for deadline := time.Now().Add(timeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", timeout, what)
		}
	}
}

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

// ListenAs listens on a port of loopback as another user, with SO_REUSEADDR.
func ListenAs(uid, port int) (l net.Listener, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(uid); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unix.Setfsuid(unix.Geteuid())) }()
	return net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
}
