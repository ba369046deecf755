package tcp

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
)

// stagger is how long an address is tried alone before the next one is tried too.
// See RFC 8305, section 5.
const stagger = 250 * time.Millisecond

// dialer makes connections to other ranks.
type dialer struct {
	shaker *shaker
	cfg    Config
	own    []netip.AddrPort // where this rank listens
}

// dial makes all connections of the link to a rank: the first one to whichever of
// its addresses answers as that rank, the others there too. It tries until ctx ends:
// the rank may be flooded by strangers, or the network slow to let the first
// packets through.
func (d *dialer) dial(ctx context.Context, rank int, addrs []netip.AddrPort) ([]*line, error) {
	conns := make([]*line, d.shaker.stripes)
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
			if conns[stripe], errs[stripe] = d.insist(ctx, rank, stripe, at, nil); errs[stripe] != nil {
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

func closeAll(conns []*line) {
	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
}

// race makes the first connection. An address gets its turn when the one before it
// has failed once, or has had [stagger] for itself; from then on it is tried until
// one of them wins. Private addresses may lead to another machine than was meant:
// that one cannot do the handshake.
func (d *dialer) race(ctx context.Context, rank int, addrs []netip.AddrPort) (*line, netip.AddrPort, error) {
	if len(addrs) == 0 {
		return nil, netip.AddrPort{}, errNowhere
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		racing sync.WaitGroup
		mu     sync.Mutex
		won    *line
		where  netip.AddrPort
	)
	errs := make([]error, len(addrs))
	turn := make(chan struct{})
	close(turn)
	for i, addr := range addrs {
		mine, next := turn, make(chan struct{})
		turn = next
		racing.Go(func() {
			if !await(ctx, mine) {
				close(next)
				return
			}
			var once sync.Once
			pass := func() { once.Do(func() { close(next) }) }
			defer pass()
			timer := time.AfterFunc(stagger, pass)
			defer timer.Stop()
			conn, err := d.insist(ctx, rank, 0, addr, pass)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs[i] = err
			case won != nil:
				conn.Close()
			default:
				won, where = conn, addr
				cancel()
			}
		})
	}
	racing.Wait()
	if won == nil {
		return nil, netip.AddrPort{}, all(errs, ctx.Err())
	}
	return won, where, nil
}

// all joins errs on one line, or is other if there are none.
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

// await reports that turn came before ctx ended.
func await(ctx context.Context, turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		return false
	}
}

// insist dials one address until it works or ctx ends. After each failure it calls
// failed, if there is one. It returns the error of the last try.
func (d *dialer) insist(ctx context.Context, rank, stripe int, addr netip.AddrPort, failed func()) (*line, error) {
	var last error
	pause := 10 * time.Millisecond
	for {
		conn, err := d.once(ctx, rank, stripe, addr)
		if err == nil {
			return conn, nil
		}
		if last == nil || ctx.Err() == nil { // else it only says that ctx has ended
			last = err
		}
		if failed != nil {
			failed()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("at %s: %w", addr, last)
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// once makes one connection and proves who is at both ends of it.
func (d *dialer) once(ctx context.Context, rank, stripe int, addr netip.AddrPort) (*line, error) {
	dialer := net.Dialer{Timeout: shakeTimeout, Control: d.cfg.control(d.here(addr.Addr()))}
	dialer.SetMultipathTCP(false)
	c, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	conn := &line{TCPConn: c.(*net.TCPConn)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = conn.SetDeadline(time.Now().Add(shakeTimeout))
	if err == nil {
		err = d.shaker.dial(conn, rank, stripe)
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

// here reports whether addr is this host.
func (d *dialer) here(addr netip.Addr) bool {
	return addr.IsLoopback() || slices.ContainsFunc(d.own, func(own netip.AddrPort) bool { return own.Addr() == addr })
}
