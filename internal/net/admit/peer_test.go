package admit

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestPeerUID(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0") // both families
	must.OK(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "::1"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Log(err) // no IPv6
			continue
		}
		peer := must.Get(l.Accept())(t)
		uid, err := PeerUID(peer)
		check.That(t, err == nil && uid == uint32(os.Getuid()), "%s: uid %d, %v", host, uid, err)
		if uid, found := inTables(t, peer); !found || uid != uint32(os.Getuid()) {
			t.Errorf("%s: in the tables uid %d, %v", host, uid, found)
		}
		check.That(t, PeerOf(peer) == Own && IsTheUsers(peer), "%s is not taken for our own", host)
		conn.Close()
		uid, err = PeerUID(peer)
		check.That(t, errors.Is(err, ErrPeerUnknown) && PeerOf(peer) == Elsewhere && !IsTheUsers(peer),
			"%s, closed: uid %d, %v; a closed socket reads as root's", host, uid, err)
		peer.Close()
	}
}

// A connection of which the kernel says nothing is nobody's: another user may have taken what the
// question needs, such as descriptors.
func TestConnectionThatNobodyKnows(t *testing.T) {
	conn, _ := net.Pipe()
	check.That(t, !IsTheUsers(conn), "it is taken for the user's")
}

// inTables is PeerUID where the kernel answers no question through netlink.
func inTables(t *testing.T, conn net.Conn) (uid uint32, found bool) {
	t.Helper()
	uid, err := tableUID(unmapped(conn.RemoteAddr().(*net.TCPAddr)), unmapped(conn.LocalAddr().(*net.TCPAddr)))
	check.That(t, err == nil || errors.Is(err, ErrPeerUnknown), "%v", err)
	return uid, err == nil
}

// Another user is known as such, whatever it connects from.
func TestPeerUIDOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root to be somebody else")
	}
	const nobody = 65534
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer l.Close()
	held := hold(t, nobody, l.Addr().String())
	defer held()
	conn := must.Get(l.Accept())(t)
	defer conn.Close()
	uid, err := PeerUID(conn)
	check.That(t, err == nil && uid == nobody && PeerOf(conn) == Other, "uid %d, %v; peer: %v", uid, err, PeerOf(conn))
	if uid, found := inTables(t, conn); !found || uid != nobody {
		t.Errorf("in the tables uid %d, %v", uid, found)
	}
}

// holdEnv makes TestHold connect to the address in its value.
const holdEnv = "GORUN_TEST_HOLD"

// hold connects to an address as a user until release.
func hold(t *testing.T, uid uint32, addr string) (release func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHold$")
	cmd.Env = append(os.Environ(), holdEnv+"="+addr)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	return func() {
		stdin.Close()
		_ = cmd.Wait()
	}
}

// TestHold runs only as a process of hold.
func TestHold(t *testing.T) {
	addr := os.Getenv(holdEnv)
	if addr == "" {
		return
	}
	conn := must.Get(net.Dial("tcp", addr))(t)
	defer conn.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A peer that sends, resets its connection and leaves its address to another socket is not taken
// for that socket's owner.
func TestPeerUIDOfAResetConnection(t *testing.T) {
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer l.Close()
	want := []error{}
	for len(want) < 20 { // until no other process takes the address in between
		// Bound first: connect alone may choose a port that another connection has, to another
		// address, and nobody can bind.
		first := must.Get(net.DialTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, l.Addr().(*net.TCPAddr)))(t)
		must.Get(first.Write([]byte("from the first")))(t)
		at := first.LocalAddr().(*net.TCPAddr)
		_ = first.SetLinger(0) // Close sends a reset
		first.Close()
		want = append(want, ErrPeerUnknown)
		if next, err := net.DialTCP("tcp4", at, l.Addr().(*net.TCPAddr)); err == nil {
			defer next.Close()
			want = append(want, nil)
			break
		}
	}
	must.That(t, want[len(want)-1] == nil, "no address could be used twice")
	for _, want := range want {
		conn := must.Get(l.Accept())(t)
		uid, err := PeerUID(conn)
		check.That(t, errors.Is(err, want), "uid %d, %v; want %v", uid, err, want)
		conn.Close()
	}
}
