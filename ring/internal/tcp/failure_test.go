package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

// soon bounds errors that need no check of the network, which takes secure.Silence.
const soon = secure.Silence * 2 / 3

// within returns the result of done, or fails the test after limit.
func within(t testing.TB, limit time.Duration, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s takes longer than %v\n%s", what, limit, buf[:runtime.Stack(buf, true)])
		return nil
	}
}

func started(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// closedBy checks that err reports that rank closed its link.
func closedBy(t testing.TB, what string, err error, rank int) {
	t.Helper()
	var peer *PeerError
	check.That(t, errors.As(err, &peer) && peer.Rank == rank && errors.Is(err, ErrClosed),
		"%s: %v, want that rank %d is gone", what, err, rank)
}

// A rank ends after any number of bytes, by FIN or by reset, while the other one sends to it
// or not. One of several connections is as good as all.
func TestPeerDies(t *testing.T) {
	const size = 3 << 20
	sign := flow.Sign{1}
	stream := append(sign[:], payload(size)...)
	out := make([]byte, 8<<20)
	for _, after := range []int{0, 10, flow.SignSize, flow.SignSize + 1000, size} {
		for _, reset := range []bool{false, true} {
			for _, sends := range []bool{false, true} {
				what := fmt.Sprintf("after %d bytes, reset %v, sends %v", after, reset, sends)
				stripes := 1
				if after <= flow.SignSize {
					stripes = 4
				}
				n := rankTwo(t, stripes)
				conn := dialAs(t, n, 0, stripes)[0]
				f := exchange(0, out, make([]byte, size))
				if !sends {
					f.To = flow.None
					f.Send = nil
					f.Lead = 0
				}
				done := started(func() error { return n.Run(f) })
				unix.Write(conn.FD, stream[:after])
				if reset {
					unix.SetsockoptLinger(conn.FD, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
				}
				conn.Close()
				closedBy(t, what, within(t, soon, what, done), 0)
				closedBy(t, what+", once more", n.Run(f), 0)
			}
		}
	}
}

// Interrupt ends a call in any state.
func TestInterruptWhileJoining(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // answers nothing
	must.OK(t, err)
	defer mute.Close()
	closed := open(t, 1)
	closed.Close()
	addrs := [][]netip.AddrPort{nil, nil, {addrOf(mute)}, closed.Addrs()}
	for _, other := range []int{0, 2, 3} { // waits for it, handshake, dials in vain
		for name, call := range map[string]func(n *Net) error{
			"Connect": func(n *Net) error { return n.Connect(testContext(t), []int{other}) },
			"Run":     func(n *Net) error { return n.Run(exchange(other, nil, nil)) },
		} {
			what := fmt.Sprintf("%s to rank %d", name, other)
			n := open(t, 1)
			must.OK(t, n.Meet(identity(1, 4), peersAt(addrs)))
			done := started(func() error { return call(n) })
			time.Sleep(rand.N(20 * time.Millisecond)) // any moment will do
			n.Interrupt()
			check.Equal(t, within(t, soon, what, done), ErrInterrupted, what)
			check.Equal(t, call(n), ErrInterrupted, what, "later")
		}
	}
}

// A rank that only sends, to one that does not receive, is also interrupted at once, not at
// the next tick.
func TestInterruptSender(t *testing.T) {
	best := time.Hour
	for range 5 {
		nets := world(t, 2, 2)
		linkUp(t, nets)
		f := sending(&flow.Sign{1}, 1, make([]byte, 64<<20))
		done := started(func() error { return nets[0].Run(f) })
		time.Sleep(tick / 10) // the sockets fill up meanwhile, or not
		start := time.Now()
		nets[0].Interrupt()
		check.Equal(t, within(t, soon, "the flow", done), ErrInterrupted)
		best = min(best, time.Since(start))
	}
	check.That(t, best <= tick/4, "took %v at best", best)
}

// Other ranks do not report an interrupted rank as dead.
func TestInterruptIsNotHeard(t *testing.T) {
	nets := world(t, 2, 1)
	linkUp(t, nets)
	waiting := started(func() error { return nets[1].Run(exchange(0, nil, make([]byte, 1))) })
	nets[0].Interrupt()
	check.Equal(t, nets[0].Run(exchange(1, nil, nil)), ErrInterrupted, "an interrupted rank runs")
	select {
	case err := <-waiting:
		t.Errorf("the other one: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	nets[0].Close()
	closedBy(t, "then it closes", within(t, soon, "the flow", waiting), 0)
}

// A rank that sees a wrong sign sends its own before it closes, and an interrupted rank
// reports that sign.
func TestLastWords(t *testing.T) {
	n := rankTwo(t, 1)
	conn := dialAs(t, n, 0, 1)[0]
	theirs := flow.Sign{7}
	unix.Write(conn.FD, theirs[:])
	must.OK(t, n.Connect(testContext(t), []int{0}))
	s := n.streams[0]
	l := n.links[0]
	s.begin(exchange(0, payload(100), nil), l, l)
	n.Interrupt() // as if right after the flow began
	err := n.verdict(s.run(nil))
	check.That(t, errors.As(err, new(*SignError)), "%v, want its other sign", err)
}
