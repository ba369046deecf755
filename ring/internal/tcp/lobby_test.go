package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/ring/internal/flow"
)

// forming is rank 1 of 2 that waits for rank 0, while strangers come.
type forming struct {
	t    testing.TB
	addr netip.AddrPort
	net  *Net
	err  error
	done chan struct{}
}

func form(t testing.TB) *forming {
	n := open(t, 1)
	f := &forming{t: t, addr: n.Addrs()[0], net: n, done: make(chan struct{})}
	if err := n.Meet(identity(1, 2), peersAt([][]netip.AddrPort{nil, n.Addrs()})); err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	go func() {
		defer close(f.done)
		f.err = n.Connect(ctx, []int{0})
	}()
	return f
}

func (f *forming) dial() net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.addr.String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

// finish lets the real rank 0 in and checks that the link works.
func (f *forming) finish() {
	f.t.Helper()
	n := open(f.t, 1)
	if err := n.Meet(identity(0, 2), peersAt([][]netip.AddrPort{n.Addrs(), {f.addr}})); err != nil {
		f.t.Fatal(err)
	}
	start := time.Now()
	if err := n.Connect(testContext(f.t), []int{1}); err != nil {
		f.t.Fatalf("rank 0 could not join: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		f.t.Errorf("joining took %v", took)
	}
	<-f.done
	if f.err != nil {
		f.t.Fatal(f.err)
	}
	in := [2][]byte{make([]byte, 5), make([]byte, 5)}
	run(f.t, []*Net{n, f.net}, []*flow.Flow{exchange(1, []byte("hello"), in[0]), exchange(0, []byte("world"), in[1])})
	if string(in[0]) != "world" || string(in[1]) != "hello" {
		f.t.Errorf("received %q", in)
	}
	if conn, err := net.Dial("tcp", f.addr.String()); err == nil {
		conn.Close()
		f.t.Error("the port is still open after all ranks are in")
	}
	if err := errors.Join(n.Close(), f.net.Close()); err != nil {
		f.t.Error(err)
	}
}

// nothing checks that the other end of conn hangs up without a byte.
func nothing(t testing.TB, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(2 * shakeTimeout))
	got, err := io.ReadAll(conn)
	if len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger got %d bytes, %v", len(got), err)
	}
}

func shakerOf(t testing.TB, self Identity) *shaker {
	t.Helper()
	s, err := newShaker(self, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// It is S1, and of S4, as all are treated alike, of the fault matrix.
func TestStrangersAreNotAnswered(t *testing.T) {
	greetings := map[string]string{
		"http":    "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 200),
		"ssh":     "SSH-2.0-OpenSSH_9.6\r\n" + strings.Repeat("\x00", 200),
		"tls":     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\xab", 500),
		"magic":   magic + strings.Repeat("\x00", 200),
		"garbage": strings.Repeat("\xff\x00\x7f", 1000),
	}
	for name, greeting := range greetings {
		t.Run(name, func(t *testing.T) {
			f := form(t)
			conn := f.dial()
			io.WriteString(conn, greeting)
			nothing(t, conn)
			f.finish()
		})
	}
}

func TestPortScan(t *testing.T) {
	f := form(t)
	for range 500 {
		conn, err := net.Dial("tcp", f.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	f.finish()
}

// More connections than may wait, which say nothing or one byte: the rank gets in
// all the same.
//
// It is R20 of the fault matrix.
func TestSlowStrangersMakeRoom(t *testing.T) {
	f := form(t)
	var conns []net.Conn
	for i := range maxStrangers + 100 {
		conn := f.dial()
		if i%2 == 0 {
			conn.Write([]byte(magic[:1]))
		}
		conns = append(conns, conn)
	}
	start := time.Now()
	nothing(t, conns[0])
	if took := time.Since(start); took > shakeTimeout/2 {
		t.Errorf("the oldest stranger left after %v, not to make room", took)
	}
	f.finish()
	nothing(t, conns[len(conns)-1]) // nobody waits any more
}

// Ranks that hold another key, or are not what they should be, hear nothing.
func TestWrongRanksAreNotAnswered(t *testing.T) {
	change := map[string]func(*Identity){
		"key":   func(id *Identity) { id.Key = bytes.Repeat([]byte{8}, 32) },
		"job":   func(id *Identity) { id.Job = "other" },
		"epoch": func(id *Identity) { id.Epoch-- },
		"size":  func(id *Identity) { id.Size++ },
		"rank":  func(id *Identity) { id.Rank = 2 },
		"comm":  func(id *Identity) { id.Comm = "rows" },
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			f := form(t)
			id := identity(0, 2)
			change(&id)
			s := shakerOf(t, id)
			mine, err := s.hello(1, 0)
			if err != nil {
				t.Fatal(err)
			}
			conn := f.dial()
			conn.Write(append(mine.encode(), mac(s.dialKey, 1, mine.encode())...))
			nothing(t, conn)
			f.finish()
		})
	}
}

// A member of the job that this rank does not expect gets no place.
func TestUnexpectedRankIsRefused(t *testing.T) {
	f := form(t)
	if err := shakerOf(t, identity(1, 2)).dial(f.dial(), 1, 0); err == nil {
		t.Error("rank 1 was let in by itself")
	}
	f.finish()
}

func TestEveryRoleJobEpochAndCommHasItsKey(t *testing.T) {
	other, later, part := identity(0, 2), identity(0, 2), identity(0, 2)
	other.Job, later.Epoch, part.Comm = "other", 5, "rows"
	seen := map[string]bool{}
	for _, id := range []Identity{identity(0, 2), other, later, part} {
		s := shakerOf(t, id)
		for _, key := range [][]byte{s.dialKey, s.joinKey, id.Key} {
			if seen[string(key)] && !bytes.Equal(key, id.Key) {
				t.Errorf("%+v shares a key", id)
			}
			seen[string(key)] = true
		}
	}
}

// A recording of all that rank 0 said once does not get anyone in again.
//
// It is R21 of the fault matrix.
func TestReplay(t *testing.T) {
	f := form(t)
	recorder := &recorder{ReadWriter: f.dial()}
	if err := shakerOf(t, identity(0, 2)).dial(recorder, 1, 0); err != nil {
		t.Fatal(err)
	}
	<-f.done
	if f.err != nil {
		t.Fatal(f.err)
	}
	f.net.Close()

	f = form(t)
	conn := f.dial()
	conn.Write(recorder.said.Bytes())
	conn.SetReadDeadline(time.Now().Add(2 * shakeTimeout))
	if got, _ := io.ReadAll(conn); len(got) > helloSize+macSize {
		t.Errorf("a replay got %d bytes, which is more than the challenge", len(got))
	}
	f.finish()
}

// What the acceptor says, said back to it, does not count as a dialer's word.
//
// It is R21 of the fault matrix.
func TestReflection(t *testing.T) {
	f := form(t)
	conn := f.dial()
	s := shakerOf(t, identity(0, 2))
	mine, err := s.hello(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := append(mine.encode(), mac(s.dialKey, 1, mine.encode())...)
	conn.Write(first)
	answer := make([]byte, helloSize+macSize)
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
	conn.Write(answer[helloSize:]) // its own MAC, in place of the proof
	nothing(t, conn)

	second := f.dial()
	second.Write(answer) // its own hello, in place of a dialer's
	nothing(t, second)
	f.finish()
}

// lobbyOf is rank 2 of 3, with its lobby open and nobody waiting in it.
func lobbyOf(t testing.TB, stripes int) *Net {
	n := open(t, stripes)
	if err := n.Meet(identity(2, 3), peersAt([][]netip.AddrPort{nil, nil, n.Addrs()})); err != nil {
		t.Fatal(err)
	}
	return n
}

// dialAs is one connection of another rank, with a link of so many stripes.
func dialAs(t testing.TB, n *Net, rank, stripe, stripes int) (*line, error) {
	s, err := newShaker(identity(rank, 3), stripes)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&dialer{shaker: s}).once(testContext(t), 2, stripe, n.Addrs()[0])
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

func TestDuplicates(t *testing.T) {
	n := lobbyOf(t, 2)
	var conns [2]*line
	for stripe := range conns {
		var err error
		if conns[stripe], err = dialAs(t, n, 0, stripe, 2); err != nil {
			t.Fatal(err)
		}
		if _, err = dialAs(t, n, 0, stripe, 2); !errors.Is(err, ErrRefused) {
			t.Errorf("second connection for stripe %d: %v, want a refusal", stripe, err)
		}
	}
	conns[1].Close()
	if _, err := dialAs(t, n, 0, 1, 2); err != nil { // the first has hung up, so there is room
		t.Errorf("rank 0 tries again: %v", err)
	}
	if err := n.Connect(testContext(t), []int{0}); err != nil {
		t.Fatal(err)
	}
	conns[0].Close()
	if _, err := dialAs(t, n, 0, 0, 2); !errors.Is(err, ErrRefused) {
		t.Errorf("a link in use got another connection: %v", err)
	}
	if _, err := dialAs(t, n, 1, 0, 2); err != nil {
		t.Errorf("the doors are closed before rank 1 is in: %v", err)
	}
}

func TestStripesMustAgree(t *testing.T) {
	n := lobbyOf(t, 2)
	for _, c := range []struct{ stripe, stripes int }{{0, 1}, {0, 3}, {2, 2}, {2, 3}, {200, 2}} {
		if _, err := dialAs(t, n, 0, c.stripe, c.stripes); !errors.Is(err, ErrRefused) {
			t.Errorf("stripe %d of %d: %v, want a refusal", c.stripe, c.stripes, err)
		}
	}
}

// A connection that hangs up before all of its link is there, and then one for each
// stripe: the listeners stay open until the last of them.
func TestDoorsCloseWithTheLast(t *testing.T) {
	n := lobbyOf(t, 1)
	first, err := dialAs(t, n, 0, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	for _, rank := range []int{0, 1} {
		if _, err := dialAs(t, n, rank, 0, 1); err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	if err := n.Connect(testContext(t), []int{0, 1}); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", n.Addrs()[0].String()); err == nil {
		conn.Close()
		t.Error("the port is still open after all ranks are in")
	}
}
