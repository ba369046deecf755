package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func identity(rank, size int) Identity {
	return Identity{Job: "job", Epoch: 4, Rank: rank, Size: size, Key: bytes.Repeat([]byte{7}, 32)}
}

func open(t testing.TB) *Listener {
	t.Helper()
	l, err := Listen(context.Background(), loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// pair joins two ranks and returns their ends of the link.
func pair(t testing.TB) (*Link, *Link) {
	t.Helper()
	ctx, l0, l1 := testContext(t), open(t), open(t)
	var links [2]map[int]*Link
	var errs [2]error
	var joining sync.WaitGroup
	joining.Go(func() { links[0], errs[0] = l0.Join(ctx, identity(0, 2), []Peer{{1, l1.Addr()}}) })
	joining.Go(func() { links[1], errs[1] = l1.Join(ctx, identity(1, 2), []Peer{{0, l0.Addr()}}) })
	joining.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return links[0][1], links[1][0]
}

// forming is rank 1 of 2 that waits for rank 0, while strangers come.
type forming struct {
	t        testing.TB
	addr     netip.AddrPort
	listener *Listener
	links    map[int]*Link
	err      error
	done     chan struct{}
}

func form(t testing.TB) *forming {
	l := open(t)
	f := &forming{t: t, addr: l.Addr(), listener: l, done: make(chan struct{})}
	ctx := testContext(t)
	go func() {
		defer close(f.done)
		f.links, f.err = l.Join(ctx, identity(1, 2), []Peer{{Rank: 0}})
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
	l := open(f.t)
	start := time.Now()
	links, err := l.Join(testContext(f.t), identity(0, 2), []Peer{{1, f.addr}})
	if err != nil {
		f.t.Fatalf("rank 0 could not join: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		f.t.Errorf("joining took %v", took)
	}
	<-f.done
	if f.err != nil {
		f.t.Fatal(f.err)
	}
	links[1].Send([]byte("hello"))
	got := make([]byte, 5)
	if err := f.links[0].Recv(got); err != nil || string(got) != "hello" {
		f.t.Errorf("received %q, %v", got, err)
	}
	if err := errors.Join(links[1].Close(), f.links[0].Close()); err != nil {
		f.t.Error(err)
	}
	if conn, err := net.Dial("tcp", f.addr.String()); err == nil {
		conn.Close()
		f.t.Error("the port is still open after all ranks are in")
	}
}

// silence checks that the other end of conn hangs up without a byte.
func silence(t testing.TB, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(2 * shakeTimeout))
	got, err := io.ReadAll(conn)
	if len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger got %d bytes, %v", len(got), err)
	}
}

func shakerOf(t testing.TB, self Identity) *shaker {
	t.Helper()
	s, err := newShaker(self)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

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
			silence(t, conn)
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
	silence(t, conns[0])
	if took := time.Since(start); took > shakeTimeout/2 {
		t.Errorf("the oldest stranger left after %v, not to make room", took)
	}
	f.finish()
	silence(t, conns[len(conns)-1]) // nobody waits any more
}

func TestSilentStrangerIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 seconds")
	}
	t.Parallel()
	f := form(t)
	conn := f.dial()
	start := time.Now()
	silence(t, conn)
	if took := time.Since(start); took > shakeTimeout+time.Second {
		t.Errorf("dropped after %v", took)
	}
	f.finish()
}

// Ranks that hold another key, or are not what they should be, hear nothing.
func TestWrongRanksAreNotAnswered(t *testing.T) {
	change := map[string]func(*Identity){
		"key":   func(id *Identity) { id.Key = bytes.Repeat([]byte{8}, 32) },
		"job":   func(id *Identity) { id.Job = "other" },
		"epoch": func(id *Identity) { id.Epoch-- },
		"size":  func(id *Identity) { id.Size++ },
		"rank":  func(id *Identity) { id.Rank = 2 },
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			f := form(t)
			id := identity(0, 2)
			change(&id)
			s := shakerOf(t, id)
			mine, err := s.hello(1)
			if err != nil {
				t.Fatal(err)
			}
			conn := f.dial()
			conn.Write(append(mine.encode(), mac(s.dialKey, 1, mine.encode())...))
			silence(t, conn)
			f.finish()
		})
	}
}

// A member of the job that this rank does not expect gets no place.
func TestUnexpectedRankIsRefused(t *testing.T) {
	f := form(t)
	if err := shakerOf(t, identity(1, 2)).dial(f.dial(), 1); err == nil {
		t.Error("rank 1 was let in by itself")
	}
	f.finish()
}

func TestEveryRoleJobAndEpochHasItsKey(t *testing.T) {
	other, later := identity(0, 2), identity(0, 2)
	other.Job, later.Epoch = "other", 5
	seen := map[string]bool{}
	for _, id := range []Identity{identity(0, 2), other, later} {
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
func TestReplay(t *testing.T) {
	f := form(t)
	recorder := &recorder{ReadWriter: f.dial()}
	if err := shakerOf(t, identity(0, 2)).dial(recorder, 1); err != nil {
		t.Fatal(err)
	}
	<-f.done
	if f.err != nil {
		t.Fatal(f.err)
	}
	f.links[0].Close()

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
func TestReflection(t *testing.T) {
	f := form(t)
	conn := f.dial()
	s := shakerOf(t, identity(0, 2))
	mine, err := s.hello(1)
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
	silence(t, conn)

	second := f.dial()
	second.Write(answer) // its own hello, in place of a dialer's
	silence(t, second)
	f.finish()
}

func TestDuplicateRank(t *testing.T) {
	s := shakerOf(t, identity(2, 3))
	lobby := newLobby(s, []int{0, 1})
	l := open(t)
	var serving sync.WaitGroup
	serving.Go(func() { lobby.serve(l.tcp) })
	dial := func() (*net.TCPConn, error) {
		return shakerOf(t, identity(0, 3)).dialOnce(testContext(t), Peer{2, l.Addr()})
	}
	first, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(); !errors.Is(err, ErrRefused) {
		t.Errorf("second connection of rank 0: %v, want a refusal", err)
	}
	first.Close()
	if again, err := dial(); err != nil { // the first has hung up, so there is room
		t.Errorf("rank 0 tries again: %v", err)
	} else {
		defer again.Close()
	}
	if lobby.absent() != 1 {
		t.Errorf("absent is rank %d, want 1", lobby.absent())
	}
	l.Close()
	serving.Wait()
	for _, conn := range lobby.close() {
		conn.Close()
	}
}

func TestJoinErrors(t *testing.T) {
	closed := open(t)
	closed.Close()
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	peer := new(PeerError)
	_, err := open(t).Join(short(), identity(0, 3), []Peer{{2, closed.Addr()}})
	if !errors.As(err, &peer) || peer.Rank != 2 || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	_, err = open(t).Join(short(), identity(1, 3), []Peer{{Rank: 0}})
	if !errors.As(err, &peer) || peer.Rank != 0 {
		t.Errorf("nobody comes: %v", err)
	}
	why := errors.New("job aborted")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if _, err := open(t).Join(ctx, identity(1, 3), []Peer{{Rank: 0}}); err != why {
		t.Errorf("cancelled: %v, want the cause", err)
	}
}

func TestListen(t *testing.T) {
	ctx := testContext(t)
	for _, all := range []string{"0.0.0.0", "::"} {
		if l, err := Listen(ctx, netip.MustParseAddr(all)); err == nil {
			l.Close()
			t.Errorf("listens on %s", all)
		}
	}
	// An address for documentation: no host has it.
	l, err := Listen(ctx, netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		t.Skipf("no route from here: %v", err)
	}
	defer l.Close()
	if l.Addr().Addr().IsUnspecified() {
		t.Errorf("listens on %v", l.Addr())
	}
}
