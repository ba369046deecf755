package secure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/retry"
)

// dialer makes connections to other ranks.
type dialer struct {
	handshaker *handshaker
	cfg        Config
	own        []netip.AddrPort // addresses on which this rank listens
	peers      []Peer           // all ranks, by rank
}

// dial makes all connections to a rank: the first to whichever address answers as that
// rank, the others to the same address. It retries until ctx ends, as the rank may be
// flooded or the network slow at first.
func (d *dialer) dial(ctx context.Context, rank int, addrs []netip.AddrPort) ([]*Conn, error) {
	conns := make([]*Conn, d.handshaker.stripes)
	errs := make([]error, len(conns))
	var at netip.AddrPort
	conns[0], at, errs[0] = d.race(ctx, rank, addrs)
	if errs[0] != nil {
		return nil, errs[0]
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var dialing sync.WaitGroup
	for stripe := 1; stripe < len(conns); stripe++ {
		dialing.Go(func() {
			if conns[stripe], errs[stripe] = d.retry(ctx, rank, stripe, at, func() {}); errs[stripe] != nil {
				cancel()
			}
		})
	}
	dialing.Wait()
	if err := all(errs, nil); err != nil {
		closeAll(conns)
		return nil, err
	}
	return conns, nil
}

// race makes the first connection, by [Race]. A private address may lead to another machine, which
// fails the handshake; it is tried until ctx ends all the same.
func (d *dialer) race(ctx context.Context, rank int, addrs []netip.AddrPort) (*Conn, netip.AddrPort, error) {
	if addrs = d.dialable(addrs...); len(addrs) == 0 {
		return nil, netip.AddrPort{}, ErrNoAddress
	}
	won, i, errs := Race(ctx, len(addrs), func(ctx context.Context, i int, failed func()) (*Conn, error) {
		return d.retry(ctx, rank, 0, addrs[i], failed)
	})
	if i < 0 {
		return nil, netip.AddrPort{}, all(errs, ctx.Err())
	}
	return won, addrs[i], nil
}

// all joins errs on one line, or returns other if there are none.
func all(errs []error, other error) error {
	var joined error
	for _, err := range errs {
		switch {
		case err != nil && joined != nil:
			joined = fmt.Errorf("%w; %w", joined, err)
		case err != nil:
			joined = err
		}
	}
	if joined == nil {
		return other
	}
	return joined
}

// retry dials one address until it succeeds or ctx ends, and calls failed after each failure. It
// returns the error of the last attempt.
func (d *dialer) retry(ctx context.Context, rank, stripe int, addr netip.AddrPort, failed func()) (*Conn, error) {
	backoff := retry.Backoff(10*time.Millisecond, time.Second)
	conn, err := retry.Do(ctx, func(n int, err error) (time.Duration, bool) {
		failed()
		return backoff(n, err)
	}, func(ctx context.Context) (*Conn, error) { return d.once(ctx, rank, stripe, addr) })
	if err != nil {
		return nil, fmt.Errorf("at %s: %w", addr, err)
	}
	return conn, nil
}

// once makes one connection and does the handshake.
func (d *dialer) once(ctx context.Context, rank, stripe int, addr netip.AddrPort) (*Conn, error) {
	return d.onceLane(ctx, rank, stripe, 0, netip.Addr{}, addr)
}

// onceLane makes one connection of a lane, from a local address if that is valid.
func (d *dialer) onceLane(ctx context.Context, rank, stripe, lane int, from netip.Addr, addr netip.AddrPort) (*Conn,
	error) {
	dialer := net.Dialer{Timeout: handshakeTimeout, Control: d.cfg.control(d.local(addr.Addr()))}
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	dialer.SetMultipathTCP(false)
	c, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	conn := &Conn{TCPConn: c.(*net.TCPConn)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err == nil {
		err = d.handshaker.dialLane(conn, rank, stripe, lane)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	conn.detach()
	if err != nil {
		conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrRefused
		}
		return nil, err
	}
	return conn, nil
}

// dialable returns those of a rank's addresses that this rank may connect to.
func (d *dialer) dialable(addrs ...netip.AddrPort) []netip.AddrPort {
	var own []netip.Addr
	for _, at := range d.own {
		own = append(own, at.Addr())
	}
	return Dialable(addrs, own)
}

// local reports whether addr is on this host.
func (d *dialer) local(addr netip.Addr) bool {
	return addr.IsLoopback() || slices.ContainsFunc(d.own, func(own netip.AddrPort) bool { return own.Addr() == addr })
}

// FirstPort is the first port on which members of a group listen: those below are of the system.
const FirstPort = 1024

// Dialable returns the addresses that a member with its own addresses may connect to, of those at
// which another one says that it listens. A hostile member could name a service of this host, or
// of another machine of a link: addresses of loopback or of one link are only for members that
// have such addresses themselves.
func Dialable(addrs []netip.AddrPort, own []netip.Addr) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(addrs), func(at netip.AddrPort) bool {
		ip := at.Addr().Unmap()
		switch {
		case at.Port() < FirstPort:
			return true
		case ip.IsLoopback():
			return !slices.ContainsFunc(own, netip.Addr.IsLoopback)
		case ip.IsLinkLocalUnicast():
			return !slices.ContainsFunc(own, netip.Addr.IsLinkLocalUnicast)
		}
		return !ip.IsGlobalUnicast()
	})
}
