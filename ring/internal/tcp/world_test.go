package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

func loopback() netip.Addr { return netip.MustParseAddr("127.0.0.1") }

func identity(rank, size int) secure.Identity {
	return secure.Identity{
		Job:   "job",
		Epoch: 4,
		Rank:  rank,
		Size:  size,
		Key:   bytes.Repeat([]byte{7}, 32),
	}
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// open returns a Net before Meet. It closes with the test.
func open(t testing.TB, stripes int, addrs ...netip.Addr) *Net {
	t.Helper()
	return openWith(t, secure.Config{Stripes: stripes}, addrs...)
}

func openWith(t testing.TB, cfg secure.Config, addrs ...netip.Addr) *Net {
	t.Helper()
	kernels := must.Get(kernel.Detect(""))(t)
	if len(addrs) == 0 {
		addrs = []netip.Addr{loopback()}
	}
	n := must.Get(Listen(testContext(t), addrs, Config{Config: cfg, Kernels: kernels}))(t)
	t.Cleanup(func() { n.Close() })
	return n
}

// peersAt returns peers with addresses only.
func peersAt(addrs [][]netip.AddrPort) []secure.Peer {
	peers := make([]secure.Peer, len(addrs))
	for rank := range addrs {
		peers[rank].Addrs = addrs[rank]
	}
	return peers
}

// railsOf takes each of a rank's addresses for an interface of its own.
func railsOf(addrs []netip.AddrPort) (all []secure.Rail) {
	for i, addr := range addrs {
		all = append(all, secure.Rail{Addr: addr, Bits: 24, Interface: fmt.Sprint("eth", i)})
	}
	return all
}

// meetAll makes ranks of this process meet.
func meetAll(t testing.TB, size int, open func(rank int) *Net) []*Net {
	t.Helper()
	nets := make([]*Net, size)
	peers := make([]secure.Peer, size)
	for rank := range nets {
		n := open(rank)
		nets[rank] = n
		peers[rank] = secure.Peer{Addrs: n.Addrs(), Cert: n.Cert(), Rails: railsOf(n.Addrs())}
	}
	for rank, n := range nets {
		must.OK(t, n.Meet(identity(rank, size), peers))
	}
	return nets
}

// world returns ranks of this process that have met.
func world(t testing.TB, size, stripes int) []*Net {
	t.Helper()
	return guardedWorld(t, secure.Plain, size, stripes)
}

// onEveryGuard runs test with bare, checked and encrypted data.
func onEveryGuard(t *testing.T, test func(t *testing.T, guard secure.Guard)) {
	for guard, name := range []string{"plain", "checked", "encrypted"} {
		t.Run(name, func(t *testing.T) { test(t, secure.Guard(guard)) })
	}
}

// guardedWorld is world with a guard.
func guardedWorld(t testing.TB, guard secure.Guard, size, stripes int) []*Net {
	t.Helper()
	return meetAll(t, size, func(int) *Net { return openWith(t, secure.Config{Stripes: stripes, Guard: guard}) })
}

// each runs a function for all ranks at once, and returns their errors.
func each(nets []*Net, do func(rank int, n *Net) error) []error {
	errs := make([]error, len(nets))
	var running sync.WaitGroup
	for rank, n := range nets {
		running.Go(func() { errs[rank] = do(rank, n) })
	}
	running.Wait()
	return errs
}

// run runs one flow on every rank, which must not fail.
func run(t testing.TB, nets []*Net, flows []*flow.Flow) {
	t.Helper()
	errs := each(nets, func(rank int, n *Net) error { return n.Run(flows[rank]) })
	must.OK(t, errors.Join(errs...))
}

// exchange returns a flow that swaps one part with another rank.
func exchange(peer int, out, in []byte) *flow.Flow {
	return &flow.Flow{
		Sign: &flow.Sign{1},
		To:   peer,
		From: peer,
		Send: [][]byte{out},
		Lead: 1,
		Recv: []flow.Part{{Into: in}},
	}
}

// linkUp links all pairs of nets.
func linkUp(t testing.TB, nets []*Net) {
	t.Helper()
	errs := each(nets, func(rank int, n *Net) error {
		var all []int
		for other := range nets {
			if other != rank {
				all = append(all, other)
			}
		}
		return n.Connect(testContext(t), all)
	})
	must.OK(t, errors.Join(errs...))
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// rankTwo returns rank 2 of 3, which no rank has dialed.
func rankTwo(t testing.TB, stripes int) *Net {
	t.Helper()
	n := open(t, stripes)
	must.OK(t, n.Meet(identity(2, 3), peersAt([][]netip.AddrPort{nil, nil, n.Addrs()})))
	return n
}

// dialAs makes the connections of another rank of 3 to rank 2. They close with the test.
func dialAs(t testing.TB, n *Net, rank, stripes int) []*secure.Conn {
	t.Helper()
	e := must.Get(secure.Listen(testContext(t), []netip.Addr{loopback()}, secure.Config{Stripes: stripes}))(t)
	t.Cleanup(e.Close)
	must.OK(t, e.Meet(identity(rank, 3), peersAt([][]netip.AddrPort{nil, nil, n.Addrs()})))
	conns := must.Get(e.Dial(testContext(t), 2))(t)
	for _, c := range conns {
		t.Cleanup(func() { c.Close() })
	}
	return conns
}

// addrOf returns the address of a listener.
func addrOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// sending is a flow that sends out to rank to, receiving one that fills in from rank from.
func sending(sign *flow.Sign, to int, out []byte) *flow.Flow {
	return &flow.Flow{
		Sign: sign,
		To:   to,
		From: flow.None,
		Lead: 1,
		Send: [][]byte{out},
	}
}

func receiving(sign *flow.Sign, from int, in []byte) *flow.Flow {
	return &flow.Flow{
		Sign: sign,
		To:   flow.None,
		From: from,
		Recv: []flow.Part{{Into: in}},
	}
}
