package tcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

// meet makes a rank that knows where the others are.
func meet(t testing.TB, rank int, addrs [][]netip.AddrPort) *Net {
	t.Helper()
	n := open(t, 1)
	must.OK(t, n.Meet(identity(rank, len(addrs)), peersAt(addrs)))
	return n
}

func TestConnectErrors(t *testing.T) {
	closed := open(t, 1)
	closed.Close()
	nobody := make([][]netip.AddrPort, 3)
	nobody[2] = closed.Addrs()
	after := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		t.Cleanup(cancel)
		return ctx
	}
	short := func() context.Context { return after(50 * time.Millisecond) }
	peer := new(PeerError)
	err := meet(t, 0, nobody).Connect(after(2*time.Second), []int{2}) // long enough to be refused on a busy machine
	check.That(t, errors.As(err, &peer) && peer.Rank == 2 && strings.Contains(err.Error(), "refused"),
		"nobody there: %v", err)
	err = meet(t, 0, nobody).Connect(short(), []int{1})
	check.That(t, errors.As(err, &peer) && peer.Rank == 1 && errors.Is(err, secure.ErrNoAddress), "no address: %v", err)
	err = meet(t, 1, nobody).Connect(short(), []int{0})
	check.That(t, errors.As(err, &peer) && peer.Rank == 0, "nobody comes: %v", err)
	why := errors.New("job aborted")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	for _, other := range []int{0, 2} {
		err := meet(t, 1, nobody).Connect(ctx, []int{other})
		check.That(t, err == why, "cancelled: %v, want the cause", err)
	}
	for _, other := range []int{-1, 1, 3} {
		check.Error(meet(t, 1, nobody).Connect(short(), []int{other})).Any(t, "rank 1 of 3 is linked to rank", other)
		err := meet(t, 1, nobody).Run(&flow.Flow{Sign: new(flow.Sign), To: other, From: flow.None})
		check.That(t, (err == nil) == (other == flow.None), "rank 1 of 3 sends to rank %d: %v", other, err)
	}
}

func TestMeetErrors(t *testing.T) {
	n := open(t, 1)
	check.Error(n.Run(&flow.Flow{To: flow.None, From: flow.None})).Any(t, "ran before the ranks met")
	check.Error(n.Connect(testContext(t), nil)).Any(t, "connected before the ranks met")
	check.Error(n.Meet(identity(0, 2), make([]secure.Peer, 1))).Any(t, "met 1 rank of 2")
	check.OK(t, n.Meet(identity(0, 1), make([]secure.Peer, 1)))
	check.Error(n.Meet(identity(0, 1), make([]secure.Peer, 1))).Any(t, "met twice")
	for _, stripes := range []int{-1, 0, secure.MaxStripes + 1} {
		check.Error(Listen(testContext(t), []netip.Addr{loopback()},
			Config{Config: secure.Config{Stripes: stripes}})).Any(t, stripes, "stripes")
	}
}

// Links come up whatever the order in which ranks ask for them, and only once.
func TestLinksAreLazy(t *testing.T) {
	nets := world(t, 5, 2)
	for range 2 {
		for distance := 1; distance < 5; distance++ {
			flows := make([]*flow.Flow, 5)
			for rank := range flows {
				flows[rank] = &flow.Flow{Sign: &flow.Sign{1}, To: (rank + distance) % 5,
					From: (rank - distance + 5) % 5}
			}
			run(t, nets, flows)
		}
	}
	for _, n := range nets {
		if conn, err := net.Dial("tcp", n.Addrs()[0].String()); err == nil {
			conn.Close()
			t.Errorf("rank %d still listens after all links are made", n.rank)
		}
	}
}

// The right rank is found among dead addresses, silent ones, ones that speak another
// protocol, and another job behind the same address.
func TestCandidateAddresses(t *testing.T) {
	closed := open(t, 1)
	closed.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // answers nothing
	must.OK(t, err)
	defer mute.Close()
	other := open(t, 1)
	stranger := identity(1, 2)
	stranger.Job = "other"
	must.OK(t, other.Meet(stranger, make([]secure.Peer, 2)))
	wrong := map[string]netip.AddrPort{"dead": closed.Addrs()[0], "mute": addrOf(mute), "another job": other.Addrs()[0]}
	for name, addr := range wrong {
		t.Run(name, func(t *testing.T) {
			one := open(t, 2)
			must.OK(t, one.Meet(identity(1, 2), make([]secure.Peer, 2)))
			zero := open(t, 2)
			candidates := append([]netip.AddrPort{addr, addr}, one.Addrs()...)
			must.OK(t, zero.Meet(identity(0, 2), peersAt([][]netip.AddrPort{nil, candidates})))
			start := time.Now()
			linkUp(t, []*Net{zero, one})
			if took := time.Since(start); took > 5*time.Second { // the timeout of one handshake
				t.Errorf("took %v: the addresses were tried one after another", took)
			}
		})
	}
}

// Several addresses of the right rank: one link comes of it.
func TestManyGoodAddresses(t *testing.T) {
	one := open(t, 1, loopback(), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("0.0.0.0"))
	must.That(t, len(one.Addrs()) >= 2, "listens on %v", one.Addrs())
	zero := open(t, 1)
	addrs := [][]netip.AddrPort{zero.Addrs(), one.Addrs()}
	must.OK(t, errors.Join(one.Meet(identity(1, 2), peersAt(addrs)), zero.Meet(identity(0, 2), peersAt(addrs))))
	linkUp(t, []*Net{zero, one})
	run(t, []*Net{zero, one}, []*flow.Flow{exchange(1, payload(10), make([]byte, 10)),
		exchange(0, payload(10), make([]byte, 10))})
}

func TestListen(t *testing.T) {
	ctx := testContext(t)
	cfg := Config{Config: secure.Config{Stripes: 1}}
	for _, all := range []string{"0.0.0.0", "::"} {
		if n, err := Listen(ctx, []netip.Addr{netip.MustParseAddr(all)}, cfg); err == nil {
			n.Close()
			t.Errorf("listens on %s", all)
		}
	}
	check.Error(Listen(ctx, nil, cfg)).Any(t, "listens nowhere")
	// An address for documentation: no host has it.
	foreign := netip.MustParseAddr("192.0.2.1")
	n, err := Listen(ctx, []netip.Addr{foreign}, cfg)
	if err != nil {
		lab.Skip(t, "no route from here: "+err.Error())
	}
	defer n.Close()
	own := n.Addrs()[0].Addr()
	check.That(t, len(n.Addrs()) == 1 && !own.IsUnspecified(), "listens on %v", n.Addrs())
	both, err := Listen(ctx, []netip.Addr{foreign, own}, cfg)
	must.OK(t, err)
	defer both.Close()
	check.That(t, len(both.Addrs()) == 1, "listens on %v, one address", both.Addrs())
}
