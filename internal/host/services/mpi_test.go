package services

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestUsersAreCheckedWithoutAToken checks that PMI_PORT and Horovod's rendezvous answer only the
// job's user and root, which ranks in containers may be.
func TestUsersAreCheckedWithoutAToken(t *testing.T) {
	lab.NeedRoot(t)
	const owner = 65534
	const stranger = 65533
	cmd := exec.Command("/proc/self/exe", portWord, "mpi")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	must.OK(t, cmd.Start())
	defer cmd.Wait()
	defer stdin.Close()
	at := must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	_, number, _ := strings.Cut(strings.TrimSpace(at), ":")
	port, err := strconv.Atoi(number)
	must.OK(t, err, at)
	for rank, tc := range []struct {
		uid  int
		want string
	}{{owner, "cmd=initack\n"}, {0, "cmd=initack\n"}, {stranger, ""}} {
		if got := askAs(t, tc.uid, port, fmt.Sprintf("cmd=initack pmiid=%d\n", rank)); !strings.HasPrefix(got,
			tc.want) || tc.want == "" && got != "" {
			t.Errorf("user %d gets %q, want %q", tc.uid, got, tc.want)
		}
	}
}

// askAs sends a line to a port on loopback as another user, and returns the beginning of the
// answer.
func askAs(t *testing.T, uid, port int, line string) string {
	t.Helper()
	answer := make(chan string)
	go func() {
		defer close(answer)
		runtime.LockOSThread() // to its end: the thread is another user's, and goes with it
		if err := unix.Setfsuid(uid); err != nil {
			t.Error(err)
			return
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		conn := os.NewFile(uintptr(fd), "port")
		defer conn.Close()
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, line) // it may be closed already
		text, _ := bufio.NewReader(conn).ReadString('\n')
		answer <- text
	}()
	return <-answer
}

// portForOthers is an agent's port for MPI programs in containers, until stdin ends.
func portForOthers() int {
	job := wire.Job{ID: "j", Size: 3, Ranks: []wire.Rank{{Rank: 0}, {Rank: 1}, {Rank: 2}}}
	m, err := newMPI(job, nil, true, func(wire.Type, any) {}, func(int) {})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(m.address())
	_, _ = io.Copy(io.Discard, os.Stdin)
	m.close()
	return 0
}

// startMPI serves MPI programs without PMI_PORT.
func startMPI(t *testing.T, job wire.Job) *mpi {
	t.Helper()
	return must.Get(newMPI(job, nil, false, func(wire.Type, any) {}, func(int) {}))(t)
}

// full is a listener of a process that has no descriptors left.
type full struct {
	tries  atomic.Int64
	closed atomic.Bool
}

func (f *full) Accept() (net.Conn, error) {
	if f.tries.Add(1); f.closed.Load() {
		return nil, net.ErrClosed
	}
	return nil, os.NewSyscallError("accept4", syscall.EMFILE)
}

func (f *full) Close() error   { f.closed.Store(true); return nil }
func (f *full) Addr() net.Addr { return nil }

// An agent without descriptors does not take a core from its ranks by asking for connections in
// vain.
func TestPortWithoutDescriptors(t *testing.T) {
	port := &full{}
	m := startMPI(t, wire.Job{})
	m.port = port
	m.wg.Go(m.accept)
	time.Sleep(200 * time.Millisecond)
	m.close()
	if n := port.tries.Load(); n > 1000 {
		t.Errorf("%d tries", n)
	}
}

// A rank may call MPI_Abort and crash before the agent has read the call.
func TestAbortOfARankThatHasEndedIsRead(t *testing.T) {
	for code := range 50 {
		m := startMPI(t, wire.Job{ID: "a", Size: 1, Ranks: []wire.Rank{{}}})
		theirs := must.Get(m.connect(0))(t)
		must.Get(fmt.Fprintf(theirs, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=%d\n",
			code))(t)
		// A child of the rank keeps the socket open.
		if end := m.end(0, 0, int(syscall.SIGSEGV), nil); end.MPI != wire.MPIAborted || end.Code != code {
			t.Errorf("the end of a rank that called MPI_Abort(%d) is %+v", code, end)
		}
		theirs.Close()
		m.close()
	}
}
