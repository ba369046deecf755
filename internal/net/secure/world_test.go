package secure

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
)

func loopback() netip.Addr { return netip.MustParseAddr("127.0.0.1") }

func identity(rank, size int) Identity {
	return Identity{
		Job:   "job",
		Epoch: 4,
		Rank:  rank,
		Size:  size,
		Key:   bytes.Repeat([]byte{7}, 32),
	}
}

// testContext ends long after any call should, even on a loaded machine.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open returns an endpoint that has not met, and that closes with the test.
func open(t testing.TB, guard Guard, stripes int, addrs ...netip.Addr) *Endpoint {
	t.Helper()
	e := must.Get(Listen(testContext(t), append(addrs, loopback()), Config{Stripes: stripes, Guard: guard}))(t)
	t.Cleanup(e.Close)
	return e
}

// meet returns an unencrypted endpoint of a rank that knows the addresses of all.
func meet(t testing.TB, rank, stripes int, addrs ...[]netip.AddrPort) *Endpoint {
	t.Helper()
	return meetWithin(t, handshakeTimeout, rank, stripes, addrs...)
}

// meetWithin is meet with another timeout of incoming handshakes.
func meetWithin(t testing.TB, timeout time.Duration, rank, stripes int, addrs ...[]netip.AddrPort) *Endpoint {
	t.Helper()
	e := open(t, Plain, stripes)
	e.timeout = timeout
	peers := make([]Peer, len(addrs))
	for i := range addrs {
		peers[i].Addrs = addrs[i]
	}
	must.OK(t, e.Meet(identity(rank, len(addrs)), peers))
	return e
}

// awaitConns returns the connections of a lower rank. They close with the test.
func awaitConns(t testing.TB, e *Endpoint, rank int) []*Conn {
	t.Helper()
	conns := must.Get(arrival(testContext(t), e, rank))(t)
	t.Cleanup(func() { closeAll(conns) })
	return conns
}

func arrival(ctx context.Context, e *Endpoint, rank int) ([]*Conn, error) {
	for {
		if conns, err := e.Take(rank); conns != nil || err != nil {
			return conns, err
		}
		select {
		case <-e.Arrived():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
