package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Listen opens a port on each of addrs, for the ranks that will dial this one. When
// this host does not own an address, as behind a network address translator, it
// takes the address from which it would reach that one instead. Never the wildcard
// address: other networks need not see a rank. It is an error only if no address
// works.
func Listen(ctx context.Context, addrs []netip.Addr, cfg Config) (*Net, error) {
	if cfg.Stripes < 1 || cfg.Stripes > MaxStripes {
		return nil, fmt.Errorf("%d stripes: it must be 1 to %d", cfg.Stripes, MaxStripes)
	}
	var listeners []*listener
	errs := []error{errors.New("no address to listen on")}
	for _, addr := range addrs {
		l, err := cfg.listenFor(ctx, addr, addrs)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		listeners = append(listeners, l)
	}
	if len(listeners) == 0 {
		return nil, errors.Join(errs...)
	}
	var own *credentials
	if cfg.Guard == Encrypted {
		var err error
		if own, err = newCredentials(); err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return nil, err
		}
	}
	return newNet(cfg, listeners, own), nil
}

// listenFor opens a port on addr, or on what stands for it here if that is not one
// of all anyway.
func (c Config) listenFor(ctx context.Context, addr netip.Addr, all []netip.Addr) (*listener, error) {
	if addr.IsUnspecified() {
		return nil, fmt.Errorf("listen on %s: a rank listens on one address, not on all", addr)
	}
	l, err := c.listen(ctx, addr)
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return l, err
	}
	own, oerr := ownAddr(ctx, addr)
	if oerr != nil || slices.Contains(all, own) {
		return nil, errors.Join(err, oerr)
	}
	return c.listen(ctx, own)
}

func (c Config) listen(ctx context.Context, addr netip.Addr) (*listener, error) {
	config := net.ListenConfig{Control: c.control(addr.IsLoopback())}
	config.SetMultipathTCP(false)
	l, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return nil, err
	}
	tcp := &listener{TCPListener: l.(*net.TCPListener), sockets: c.Sockets}
	c.Sockets.tell(tcp.TCPListener, true)
	return tcp, nil
}

// ownAddr returns the address from which this host would send to addr. Connecting
// a datagram socket sends nothing.
func ownAddr(ctx context.Context, addr netip.Addr) (netip.Addr, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", netip.AddrPortFrom(addr, 9).String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return plain(conn.LocalAddr()).Addr(), nil
}

// plain is a socket's address, IPv4 as such.
func plain(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
