package services

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/mpi/pmi"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

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
	n := port.tries.Load()
	check.That(t, n <= 1000, "%d tries", n)
}

// It is known who has written to the socket that a rank has inherited, and whether a process below
// root's is another user's.
func TestOtherUsersBehindARankAreKnown(t *testing.T) {
	lab.NeedRoot(t)
	for uid, other := range map[uint32]bool{0: false, 65533: true} {
		m := startMPI(t, wire.Job{ID: "a", Size: 1, Ranks: []wire.Rank{{}}})
		theirs := must.Get(m.connect(0))(t)
		child := exec.Command("sh", "-c", "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; read -r line <&3; cat")
		child.ExtraFiles = []*os.File{theirs}
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		input := must.Get(child.StdinPipe())(t)
		output := must.Get(child.StdoutPipe())(t)
		must.OK(t, child.Start())
		must.Get(input.Write([]byte("answered\n")))(t)
		must.Get(output.Read(make([]byte, 1)))(t)
		check.Equal(t, m.foreign(0), other, "user", uid, "has written")
		check.Equal(t, othersBelow(), other, "user", uid, "is below")
		input.Close()
		_ = child.Wait()
		theirs.Close()
		m.close()
	}
}

// A rank that ends without reading its answer resets the connection, which ends that alone.
func TestConnectionThatIsResetEnds(t *testing.T) {
	m := startMPI(t, wire.Job{ID: "a", Size: 1, Ranks: []wire.Rank{{}}})
	theirs := must.Get(m.connect(0))(t)
	must.Get(fmt.Fprintln(theirs, "cmd=init pmi_version=1 pmi_subversion=1"))(t)
	answered := []unix.PollFd{{Fd: int32(theirs.Fd()), Events: unix.POLLIN}}
	must.Get(unix.Poll(answered, -1))(t)
	theirs.Close()
	m.mu.Lock()
	end := m.conns[0]
	m.mu.Unlock()
	<-end.over
	m.close()
}

// A rank may call MPI_Abort and crash before the agent has read the call.
func TestAbortOfARankThatHasEndedIsRead(t *testing.T) {
	for code := range 50 {
		m := startMPI(t, wire.Job{ID: "a", Size: 1, Ranks: []wire.Rank{{}}})
		theirs := must.Get(m.connect(0))(t)
		must.Get(fmt.Fprintf(theirs, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=%d\n", code))(t)
		// A child of the rank keeps the socket open.
		if end := m.end(0, 0, int(syscall.SIGSEGV), nil); end.MPI != wire.MPIAborted || end.Code != code {
			t.Errorf("the end of a rank that called MPI_Abort(%d) is %+v", code, end)
		}
		theirs.Close()
		m.close()
	}
}

// Shared memory that ranks have named is removed if it is this user's.
func TestSegmentsOfOthersStay(t *testing.T) {
	lab.NeedRoot(t)
	m := startMPI(t, wire.Job{ID: "a", Size: 1, Ranks: []wire.Rank{{}}})
	theirs := must.Get(m.connect(0))(t)
	defer theirs.Close()
	must.Get(fmt.Fprintln(theirs, "cmd=init pmi_version=1 pmi_subversion=1"))(t)
	for name, uid := range map[string]int{"own": 0, "far": 65533} {
		path := fmt.Sprintf("/dev/shm/mpich_shar_tmp%s%03d", name, os.Getpid()%1000)
		must.OK(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, uid, uid)))
		defer os.Remove(path)
		must.Get(fmt.Fprintf(theirs, "cmd=put kvsname=kvs_a key=-bcast-%s value=%x\n", name, path))(t)
		defer func() {
			_, err := os.Lstat(path)
			check.Equal(t, os.IsNotExist(err), uid == 0, path, "is removed")
		}()
	}
	m.end(0, 0, 0, nil)
	m.close()
}

// Other users may make millions of files beside the ranks' shared memory: it is looked for once a
// job, not at the end of each world of spawned ranks.
func TestSegmentsAreLookedForOnce(t *testing.T) {
	m := startMPI(t, wire.Job{ID: rand.Text(), Size: 1, Ranks: []wire.Rank{{}}})
	theirs := must.Get(m.connect(0))(t)
	defer theirs.Close()
	must.Get(fmt.Fprintln(theirs, "cmd=init pmi_version=1 pmi_subversion=1"))(t)
	m.end(0, 0, 0, nil)
	_, numbered := m.host.Segments()
	path := filepath.Join(pmi.SegmentFolder, numbered+"0")
	must.OK(t, os.WriteFile(path, nil, 0o600))
	defer os.Remove(path)
	m.places[7] = place{m.host, 0}
	m.forget(7)
	_, err := os.Lstat(path)
	check.OK(t, err)
	m.close()
	check.Error(os.Lstat(path)).Is(t, os.ErrNotExist)
}
