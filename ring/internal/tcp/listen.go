package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Listener waits for other ranks on one address of this host.
type Listener struct {
	tcp  *net.TCPListener
	addr netip.AddrPort
}

// Listen opens a port on addr. When this host does not own addr, as behind a
// network address translator, it takes the address from which it would reach
// addr instead. Never the wildcard address: other networks need not see a rank.
func Listen(ctx context.Context, addr netip.Addr) (*Listener, error) {
	if addr.IsUnspecified() {
		return nil, fmt.Errorf("listen on %s: a rank listens on one address, not on all", addr)
	}
	l, err := listen(ctx, addr)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return l, err
	}
	own, oerr := ownAddr(ctx, addr)
	if oerr != nil {
		return nil, errors.Join(err, oerr)
	}
	return listen(ctx, own)
}

func listen(ctx context.Context, addr netip.Addr) (*Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, err
	}
	tcp := l.(*net.TCPListener)
	bound := tcp.Addr().(*net.TCPAddr).AddrPort()
	return &Listener{tcp: tcp, addr: netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port())}, nil
}

// ownAddr returns the address from which this host would send to addr. Connecting
// a datagram socket sends nothing.
func ownAddr(ctx context.Context, addr netip.Addr) (netip.Addr, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", netip.AddrPortFrom(addr, 9).String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// Addr is where other ranks find this one.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Close ends the listener. Join does so too.
func (l *Listener) Close() error { return l.tcp.Close() }
