package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/rails"
)

// sockets are the open connections of a rank.
type sockets struct {
	mu   sync.Mutex
	open []int
}

func (s *sockets) report(fd int, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); kind != 0 {
		return
	}
	if open {
		s.open = append(s.open, fd)
	} else {
		s.open = slices.DeleteFunc(s.open, func(other int) bool { return other == fd })
	}
}

func (s *sockets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// sever ends one of the connections as a network might.
func (s *sockets) sever(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < len(s.open) {
		_ = unix.Shutdown(s.open[i], unix.SHUT_RDWR)
	}
}

// railWorld returns ranks that have met, joined by rails: subnets of the loopback interface. The
// first two have all their lanes.
func railWorld(t testing.TB, guard secure.Guard, size, count int) ([]*Net, []*sockets) {
	t.Helper()
	open := make([]*sockets, size)
	nets := meetAll(t, size, func(rank int) *Net {
		var addrs []netip.Addr
		for rail := range count {
			addrs = append(addrs, netip.MustParseAddr(fmt.Sprintf("127.0.%d.%d", 10+rail, 1+rank)))
		}
		open[rank] = &sockets{}
		return openWith(t, secure.Config{Stripes: 1, Guard: guard, Sockets: open[rank].report}, addrs...)
	})
	linkUp(t, nets)
	awaitLanes(t, nets, open, (size-1)*count)
	return nets, open
}

// awaitLanes swaps a little until the first two ranks have so many connections, all of them lanes.
func awaitLanes(t testing.TB, nets []*Net, open []*sockets, count int) {
	t.Helper()
	ctx := testContext(t)
	toEach := count / (len(nets) - 1)
	for open[0].count() != count || open[1].count() != count || lanes(nets[0], 1) != toEach ||
		lanes(nets[1], 0) != toEach {
		swap(t, nets[:2], 1000)
		if ctx.Err() != nil {
			t.Fatalf("%d and %d lanes, want %d", open[0].count(), open[1].count(), count)
		}
	}
}

// lanes returns the number of connections to a rank whose handshake is over. Nothing may be sent or
// received meanwhile.
func lanes(n *Net, rank int) int {
	n.mu.Lock()
	first := n.links[rank].conns[0]
	n.mu.Unlock()
	s, ok := first.(*rails.Stream)
	if !ok {
		return 1
	}
	fds, _ := s.Watch(nil, false, true) // the lanes and the pipe that ends the wait
	return len(fds) - 1
}

// swap exchanges n bytes between two ranks, and checks them.
func swap(t testing.TB, nets []*Net, n int) {
	t.Helper()
	in := [2][]byte{make([]byte, n), make([]byte, n)}
	out := [2][]byte{payload(n), payload(n)}
	for i := range out[1] {
		out[1][i] ^= 0x55
	}
	run(t, nets, []*flow.Flow{exchange(1, out[0], in[0]), exchange(0, out[1], in[1])})
	for rank := range in {
		must.That(t, bytes.Equal(in[rank], out[1-rank]),
			"rank %d received other bytes than rank %d sent, of %d", rank, 1-rank, n)
	}
}

// Bytes stream around ranks that each send to one and receive from another.
func TestRailsCarryRings(t *testing.T) {
	const size = 3
	const n = 5 << 20
	nets, _ := railWorld(t, secure.Plain, size, 2)
	for range 3 {
		flows := make([]*flow.Flow, size)
		in := make([][]byte, size)
		for rank := range size {
			in[rank] = make([]byte, n)
			flows[rank] = exchange((rank+1)%size, payload(n), in[rank])
			flows[rank].From = (rank + size - 1) % size
		}
		run(t, nets, flows)
		for rank := range in {
			must.That(t, bytes.Equal(in[rank], payload(n)), "rank %d received other bytes", rank)
		}
	}
}

// A sender may be a window ahead while what it must acknowledge lies behind data that it does not
// receive yet.
func TestRailsBothSendFirst(t *testing.T) {
	nets, _ := railWorld(t, secure.Plain, 2, 2)
	const n = 2 << 20
	errs := each(nets, func(rank int, net *Net) error {
		in := make([]byte, n)
		for range 5 {
			give := sending(&flow.Sign{1}, 1-rank, payload(n))
			take := receiving(&flow.Sign{1}, 1-rank, in)
			if err := errors.Join(net.Run(give), net.Run(take)); err != nil {
				return err
			}
			if !bytes.Equal(in, payload(n)) {
				return errors.New("other bytes")
			}
		}
		return nil
	})
	must.OK(t, errors.Join(errs...))
}

// Lanes that end are replaced, and lose nothing.
func TestRailsLoseLanes(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, guard secure.Guard) {
		nets, open := railWorld(t, guard, 2, 2)
		for round := range 6 {
			awaitLanes(t, nets, open, 2)
			done := make(chan struct{})
			go func() {
				defer close(done)
				open[round%2].sever(round / 2 % 2)
			}()
			swap(t, nets, 8<<20)
			<-done
		}
	})
}

// The end of the other rank ends a flow at once, however many lanes there are.
func TestRailsReportTheEnd(t *testing.T) {
	nets, _ := railWorld(t, secure.Plain, 2, 2)
	failed := make(chan error, 1)
	go func() { failed <- nets[0].Run(exchange(1, make([]byte, 1<<20), make([]byte, 1<<20))) }()
	nets[1].Interrupt()
	nets[1].Close()
	err := <-failed
	var peer *PeerError
	check.That(t, errors.As(err, &peer) && peer.Rank == 1 && errors.Is(err, ErrClosed), "%v", err)
	check.That(t, !errors.Is(err, unix.ETIMEDOUT), "found by a timeout")
}

// One rail is one plain connection.
func TestOneRailIsASocket(t *testing.T) {
	nets, _ := railWorld(t, secure.Plain, 2, 1)
	if _, ok := nets[0].links[1].conns[0].(socket); !ok {
		t.Errorf("%T", nets[0].links[1].conns[0])
	}
	swap(t, nets, 1<<20)
}

// A rank that has left is found while this one sends to it. What it sent before still arrives.
func TestRailsLastData(t *testing.T) {
	const n = 32 << 10
	for range 20 {
		nets, open := railWorld(t, secure.Plain, 2, 2)
		give := sending(&flow.Sign{1}, 0, payload(n))
		must.OK(t, nets[1].Run(give))
		nets[1].Deliver()
		nets[1].Interrupt()
		nets[1].Close()
		note := &flow.Flow{Sign: &flow.Sign{1}, To: flow.None, From: flow.None}
		_ = nets[0].sendNote(nets[0].links[1], note) // resets a connection
		in := make([]byte, n)
		if err := nets[0].Run(receiving(&flow.Sign{1}, 1, in)); err != nil {
			t.Fatalf("%v, with %d connections", err, open[0].count())
		}
		must.That(t, bytes.Equal(in, payload(n)), "other bytes")
	}
}

// A rank that has received all leaves at once. The other one has not failed: what it holds is
// acknowledged or was received.
func TestRailsLeave(t *testing.T) {
	for range 20 {
		nets, _ := railWorld(t, secure.Plain, 2, 2)
		const n = 3 << 20
		var errs [2]error
		var wg sync.WaitGroup
		for rank := range nets {
			f := exchange(1-rank, payload(n), make([]byte, n))
			wg.Go(func() {
				if errs[rank] = nets[rank].Run(f); errs[rank] == nil {
					nets[rank].Deliver()
					nets[rank].Close()
				}
			})
		}
		wg.Wait()
		for rank, err := range errs {
			must.OK(t, err, "rank", rank)
		}
	}
}
