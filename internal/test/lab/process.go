package lab

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	p := Start(t, exec.Command(name, args...))
	if _, err := p.out.ReadByte(); err != nil {
		t.Fatal(err)
	}
	return p.Process.Pid
}

// Program is a program that a test has started.
type Program struct {
	*exec.Cmd
	In  io.WriteCloser // its standard input
	out *bufio.Reader
}

// Start starts cmd, and ends it with the test. If it has no standard error, it gets the test's.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it may be over
		_ = cmd.Wait()
	})
	return &Program{cmd, in, bufio.NewReader(out)}
}

// Line returns the next line that the program says, or io.EOF.
func (p *Program) Line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Hear returns the next line that begins with prefix.
func (p *Program) Hear(prefix string) (string, error) {
	for {
		line, err := p.Line()
		if err != nil {
			return "", fmt.Errorf("%q ended without a line %q: %w", p.Args, prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return line, nil
		}
	}
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
