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

	"golang.org/x/sys/unix"
)

// QuickExit keeps a process under the race detector from lingering a second at its end.
const QuickExit = "GORACE=atexit_sleep_ms=0"

// NewMark returns a variable for the environment of all processes of one test.
func NewMark() string { return "TEST_MARK=" + rand.Text() }

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

// roleEnv makes a test binary a process of a test: it has the process's role.
const roleEnv = "GORUN_TEST_ROLE"

// Play plays the role of this process and exits, if StartRole has given it one. Told is what
// follows the role's name.
func Play(roles map[string]func(told string) error) {
	role := os.Getenv(roleEnv)
	if role == "" {
		return
	}
	name, told, _ := strings.Cut(role, " ")
	if err := roles[name](told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// StartRole starts cmd, which runs the program of this test, as a process with a role: "NAME …". It
// ends with the test.
func StartRole(t testing.TB, cmd *exec.Cmd, role string, environ ...string) *Program {
	t.Helper()
	cmd.Env = append(append(os.Environ(), environ...), QuickExit, roleEnv+"="+role)
	return Start(t, cmd)
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
