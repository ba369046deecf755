package secure

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

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// forming is rank 1 of 2 that waits for rank 0.
type forming struct {
	t        testing.TB
	addr     netip.AddrPort
	endpoint *Endpoint
	conns    []*Conn // of rank 0, once done
	err      error
	done     chan struct{}
}

func form(t testing.TB) *forming {
	t.Helper()
	return formWithin(t, handshakeTimeout)
}

// formWithin is form with another timeout of incoming handshakes.
func formWithin(t testing.TB, timeout time.Duration) *forming {
	t.Helper()
	e := meetWithin(t, timeout, 1, 1, nil, nil)
	f := &forming{
		t:        t,
		addr:     e.Addrs()[0],
		endpoint: e,
		done:     make(chan struct{}),
	}
	ctx := testContext(t)
	go func() {
		defer close(f.done)
		f.conns, f.err = arrival(ctx, e, 0)
	}()
	return f
}

// dial connects, and again if the kernel drops the first packets under load: its own
// retries back off for minutes.
func (f *forming) dial() net.Conn {
	f.t.Helper()
	var conn net.Conn
	var err error
	for range 60 {
		conn, err = net.DialTimeout("tcp", f.addr.String(), 2*time.Second)
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			break
		}
	}
	must.OK(f.t, err)
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

// finish connects rank 0 and checks that data flows both ways.
func (f *forming) finish() {
	f.t.Helper()
	zero := meet(f.t, 0, 1, nil, []netip.AddrPort{f.addr})
	conns, err := zero.Dial(testContext(f.t), 1)
	must.OK(f.t, err, "rank 0 cannot join")
	<-f.done
	must.That(f.t, f.err == nil, "%v", f.err)
	ends := [2]*Conn{conns[0], f.conns[0]}
	for i, text := range []string{"hello", "world"} {
		got := make([]byte, len(text))
		_, err := unix.Write(ends[i].FD, []byte(text))
		_, perr := unix.Poll([]unix.PollFd{{Fd: int32(ends[1-i].FD), Events: unix.POLLIN}}, -1)
		if _, rerr := ends[1-i].Recv(got); err != nil || perr != nil || rerr != nil || string(got) != text {
			f.t.Errorf("rank %d receives %q: %v, %v", 1-i, got, err, rerr)
		}
	}
	if conn, err := net.Dial("tcp", f.addr.String()); err == nil {
		conn.Close()
		f.t.Error("the port is still open after all ranks have joined")
	}
	for _, c := range ends {
		check.OK(f.t, c.Close())
	}
	zero.Close()
	f.endpoint.Close()
}

// nothing checks that the other end of conn hangs up without a byte.
func nothing(t testing.TB, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	got, err := io.ReadAll(conn)
	check.That(t, len(got) == 0 && !errors.Is(err, os.ErrDeadlineExceeded),
		"an unauthenticated peer got %d bytes, %v", len(got), err)
}

func handshakerOf(t testing.TB, self Identity) *handshaker {
	t.Helper()
	return must.Get(newHandshaker(self, 1))(t)
}

// Programs of another protocol, and ranks with another key or identity. S1 and part of S4 of the
// fault matrix.
func TestUnauthenticatedPeersGetNoAnswer(t *testing.T) {
	greetings := map[string]string{
		"http":    "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 200),
		"ssh":     "SSH-2.0-OpenSSH_9.6\r\n" + strings.Repeat("\x00", 200),
		"tls":     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\xab", 500),
		"magic":   magic + strings.Repeat("\x00", 200),
		"garbage": strings.Repeat("\xff\x00\x7f", 1000),
	}
	for name, change := range map[string]func(*Identity){
		"key":   func(id *Identity) { id.Key = bytes.Repeat([]byte{8}, 32) },
		"job":   func(id *Identity) { id.Job = "other" },
		"epoch": func(id *Identity) { id.Epoch-- },
		"size":  func(id *Identity) { id.Size++ },
		"rank":  func(id *Identity) { id.Rank = 2 },
		"comm":  func(id *Identity) { id.Comm = "rows" },
	} {
		id := identity(0, 2)
		change(&id)
		s := handshakerOf(t, id)
		mine := must.Get(s.hello(1, 0))(t)
		keys := must.Get(s.keys(1))(t)
		greetings["another "+name] = string(append(mine.encode(), mac(keys.dial, 1, mine.encode())...))
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

// More connections than may be pending send nothing or one byte: the oldest is closed to
// make room, and the rank still joins. R20 of the fault matrix.
func TestFullAcceptorClosesTheOldest(t *testing.T) {
	f := formWithin(t, time.Hour) // none ends by its timeout
	var conns []net.Conn
	for i := range admit.MaxPending + 100 {
		conn := f.dial()
		if i%2 == 0 {
			conn.Write([]byte(magic[:1]))
		}
		conns = append(conns, conn)
	}
	nothing(t, conns[0])
	f.finish()
	nothing(t, conns[len(conns)-1]) // all ranks have joined
}

// A rank that does not dial this one is refused.
func TestUnexpectedRankIsRefused(t *testing.T) {
	f := form(t)
	check.That(t, handshakerOf(t, identity(1, 2)).dial(f.dial(), 1, 0) != nil, "rank 1 accepted itself")
	f.finish()
}

func TestEveryRoleJobEpochAndCommHasItsKey(t *testing.T) {
	other := identity(0, 2)
	later := identity(0, 2)
	part := identity(0, 2)
	other.Job = "other"
	later.Epoch = 5
	part.Comm = "rows"
	seen := map[string]bool{}
	for _, id := range []Identity{identity(0, 2), other, later, part} {
		keys := must.Get(handshakerOf(t, id).keys(1))(t)
		for _, key := range [][]byte{keys.dial, keys.join, id.Key} {
			check.That(t, !seen[string(key)] || bytes.Equal(key, id.Key), "%+v shares a key", id)
			seen[string(key)] = true
		}
	}
}

// A recording of all that rank 0 sent is not accepted again. R21 of the fault matrix.
func TestReplay(t *testing.T) {
	f := form(t)
	recorder := &recorder{ReadWriter: f.dial()}
	must.OK(t, handshakerOf(t, identity(0, 2)).dial(recorder, 1, 0))
	<-f.done
	must.That(t, f.err == nil, "%v", f.err)
	closeAll(f.conns)
	f.endpoint.Close()

	f = form(t)
	conn := f.dial()
	conn.Write(recorder.sent.Bytes())
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	got, _ := io.ReadAll(conn)
	check.That(t, len(got) <= helloSize+macSize, "a replay got %d bytes, which is more than the challenge", len(got))
	f.finish()
}

// dialAs makes one connection of another rank of 3 to e, rank 2.
func dialAs(t testing.TB, e *Endpoint, rank, stripe, stripes int) (*Conn, error) {
	h := must.Get(newHandshaker(identity(rank, 3), stripes))(t)
	conn, err := (&dialer{handshaker: h}).once(testContext(t), 2, stripe, e.Addrs()[0])
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

func TestDuplicates(t *testing.T) {
	n := meet(t, 2, 2, nil, nil, nil)
	var conns [2]*Conn
	for stripe := range conns {
		conns[stripe] = must.Get(dialAs(t, n, 0, stripe, 2))(t)
		_, err := dialAs(t, n, 0, stripe, 2)
		check.That(t, errors.Is(err, ErrRefused), "second connection for stripe %d: %v, want a refusal", stripe, err)
	}
	conns[1].Close()
	_, err := dialAs(t, n, 0, 1, 2) // the first has hung up
	check.OK(t, err, "rank 0 tries again")
	awaitConns(t, n, 0)
	conns[0].Close()
	check.Error(dialAs(t, n, 0, 0, 2)).Is(t, ErrRefused, "a link in use got another connection")
	_, err = dialAs(t, n, 1, 0, 2)
	check.OK(t, err, "the listeners are closed before rank 1 has joined")
}

func TestStripesMustAgree(t *testing.T) {
	n := meet(t, 2, 2, nil, nil, nil)
	for _, c := range []struct{ stripe, stripes int }{{0, 1}, {0, 3}, {2, 2}, {2, 3}, {200, 2}} {
		_, err := dialAs(t, n, 0, c.stripe, c.stripes)
		check.That(t, errors.Is(err, ErrRefused), "stripe %d of %d: %v, want a refusal", c.stripe, c.stripes, err)
	}
}

// One connection hangs up before its link is complete, and then one arrives for each
// stripe: the listeners stay open until the last.
func TestListenersCloseWithTheLast(t *testing.T) {
	n := meet(t, 2, 1, nil, nil, nil)
	first := must.Get(dialAs(t, n, 0, 0, 1))(t)
	first.Close()
	for _, rank := range []int{0, 1} {
		_, err := dialAs(t, n, rank, 0, 1)
		must.OK(t, err, "rank", rank)
	}
	awaitConns(t, n, 0)
	awaitConns(t, n, 1)
	if conn, err := net.Dial("tcp", n.Addrs()[0].String()); err == nil {
		conn.Close()
		t.Error("the port is still open after all ranks have joined")
	}
}

// welcoming returns rank 1 of 2 that accepts lanes, and rank 0.
func welcoming(t *testing.T) (one, zero *Endpoint, taken chan int) {
	t.Helper()
	one = open(t, Plain, 1)
	taken = make(chan int, 10)
	one.Welcome(func(rank, stripe, lane int, conn *Conn) bool {
		taken <- lane
		t.Cleanup(func() { conn.Close() })
		return true
	})
	must.OK(t, one.Meet(identity(1, 2), make([]Peer, 2)))
	return one, meet(t, 0, 1, nil, one.Addrs()), taken
}

// A lane goes where a first connection might go, whatever the other rank calls its rail.
func TestLanesToOwnServicesAreNotDialled(t *testing.T) {
	_, zero, _ := welcoming(t)
	for _, at := range []string{"127.0.0.1:22", "169.254.7.7:40000"} {
		check.Error(zero.DialLane(testContext(t), 1, 0, 1, loopback(), netip.MustParseAddrPort(at))).Is(t, ErrNoAddress,
			at)
	}
}

// The key's holder adds lanes once its first connection was taken, also the same one again.
func TestLanes(t *testing.T) {
	one, zero, taken := welcoming(t)
	check.Error(zero.DialLane(testContext(t), 1, 0, 1, loopback(), one.Addrs()[0])).Is(t, ErrRefused,
		"a lane before the first connection")
	conns := must.Get(zero.Dial(testContext(t), 1))(t)
	t.Cleanup(func() { closeAll(conns) })
	awaitConns(t, one, 0)
	for _, lane := range []int{1, 2, 1} {
		conn := must.Get(zero.DialLane(testContext(t), 1, 0, lane, loopback(), one.Addrs()[0]))(t)
		conn.Close()
		check.Equal(t, <-taken, lane, "lane", lane, "came as")
	}
}

// A port that stays open for lanes answers nobody without the job's key, and no recording.
func TestLanesNeedTheKey(t *testing.T) {
	one, zero, taken := welcoming(t)
	conns := must.Get(zero.Dial(testContext(t), 1))(t)
	t.Cleanup(func() { closeAll(conns) })
	awaitConns(t, one, 0)
	knock := func() net.Conn {
		conn := must.Get(net.Dial("tcp", one.Addrs()[0].String()))(t)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	stranger := identity(0, 2)
	stranger.Key = bytes.Repeat([]byte{8}, 32)
	check.That(t, handshakerOf(t, stranger).dialLane(knock(), 1, 0, 1) != nil, "another key opens a lane")
	recorder := &recorder{ReadWriter: knock()}
	must.OK(t, handshakerOf(t, identity(0, 2)).dialLane(recorder, 1, 0, 1))
	check.Equal(t, <-taken, 1, "lane")
	again := knock()
	must.Get(again.Write(recorder.sent.Bytes()))(t)
	got, _ := io.ReadAll(again)
	check.That(t, len(got) <= helloSize+macSize, "a recording gets %d bytes", len(got))
	check.That(t, len(taken) == 0, "a recording becomes a lane")
}

// An endpoint without lanes refuses them.
func TestLanesAreRefused(t *testing.T) {
	f := form(t)
	check.That(t, handshakerOf(t, identity(0, 2)).dialLane(f.dial(), 1, 0, 1) != nil, "a lane was accepted")
	f.finish()
}
