// Package secure makes authenticated TCP connections between the ranks of a job, and
// protects the data on them. The ranks prove to each other that they hold the job's key.
package secure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// MaxStripes is the largest number of connections between two ranks.
const MaxStripes = 16

var (
	// ErrRefused reports a handshake in which the other end did not prove its identity.
	ErrRefused = errors.New("handshake refused")
	// ErrChanged reports data that differs from what was sent.
	ErrChanged = errors.New("data was changed on the way")
	// ErrNoAddress reports a rank that published no address.
	ErrNoAddress = errors.New("no address of it is known")
)

// Config configures an [Endpoint]. Stripes and Guard must be the same on all ranks.
type Config struct {
	Stripes int // connections between two ranks, 1 to MaxStripes
	// TCP congestion control; empty leaves it to the kernel, and to the package between ranks of
	// one host
	Congestion string
	Guard      Guard   // protection of data
	Sockets    Sockets // nil: sockets are not reported
}

// Identity is one rank in one epoch of one job.
type Identity struct {
	Job        string
	Epoch      int
	Rank, Size int
	Key        []byte // secret of the job and epoch
	Comm       string // name of a sub-communicator, empty for the world
}

// Peer is a rank's own description, published over a trusted channel.
type Peer struct {
	Addrs []netip.AddrPort // addresses on which the rank listens, best first
	Cert  Fingerprint      // fingerprint of the rank's key, if data is encrypted
	Rails []Rail           // those of Addrs that accept lanes
}

// Rail is an address in the subnet of one of a rank's interfaces.
type Rail struct {
	Addr      netip.AddrPort `json:"addr"`
	Bits      int            `json:"bits"`      // length of the subnet's prefix
	Interface string         `json:"interface"` // name of the interface on its host
}

// Lanes takes a connection that a lower rank adds to one of its stripes while they are in use,
// as lane 1 or above, and reports whether it does. It then owns the connection.
type Lanes func(rank, stripe, lane int, conn *Conn) bool

// Endpoint makes one rank's connections to the others. After Meet, Dial may run for
// several ranks at once, and higher ranks' dials are accepted in the background.
type Endpoint struct {
	cfg       Config
	listeners []*listener
	addrs     []netip.AddrPort
	own       *Credentials  // nil unless data is encrypted
	timeout   time.Duration // bound on an incoming handshake
	lanes     Lanes         // nil: none are accepted

	dialer   *dialer   // nil before Meet
	acceptor *acceptor // nil before Meet
}

// Listen opens a port on each of addrs, for the ranks that will dial this one. If this
// host does not own an address, as behind a network address translator, Listen uses the
// local address that routes to it. Wildcard addresses are an error, since they would
// expose the rank to other networks. Listen fails only if no address works.
func Listen(ctx context.Context, addrs []netip.Addr, cfg Config) (*Endpoint, error) {
	if cfg.Stripes < 1 || cfg.Stripes > MaxStripes {
		return nil, fmt.Errorf("%d stripes: it must be 1 to %d", cfg.Stripes, MaxStripes)
	}
	e := &Endpoint{cfg: cfg, timeout: handshakeTimeout}
	var err error
	if e.listeners, err = cfg.listenOn(ctx, addrs); err != nil {
		return nil, err
	}
	for _, l := range e.listeners {
		e.addrs = append(e.addrs, plain(l.Addr()))
	}
	if cfg.Guard == Encrypted {
		if e.own, err = NewCredentials(NewSeed()); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

// Addrs returns the address and port of each listener.
func (e *Endpoint) Addrs() []netip.AddrPort { return slices.Clone(e.addrs) }

// Cert returns the fingerprint of this rank's key; zero unless data is encrypted.
func (e *Endpoint) Cert() Fingerprint {
	if e.own == nil {
		return Fingerprint{}
	}
	return e.own.Fingerprint()
}

// Welcome makes the endpoint accept lanes, until Close: without it the listeners close when all
// lower ranks have connected. Call it before Meet.
func (e *Endpoint) Welcome(lanes Lanes) { e.lanes = lanes }

// Meet sets the identity of this rank and the peers, by rank, self included. From now on
// connections of lower ranks are accepted.
func (e *Endpoint) Meet(self Identity, peers []Peer) error {
	if e.dialer != nil {
		return errors.New("the ranks have met before")
	}
	if self.Size < 1 || self.Rank < 0 || self.Rank >= self.Size || len(peers) != self.Size {
		return fmt.Errorf("rank %d of %d meets %d ranks", self.Rank, self.Size, len(peers))
	}
	h, err := newHandshaker(self, e.cfg.Stripes)
	if err != nil {
		return err
	}
	peers = slices.Clone(peers)
	h.guard = e.cfg.Guard
	h.credentials = e.own
	h.cert = func(rank int) (Fingerprint, bool) {
		if rank >= len(peers) {
			return Fingerprint{}, false
		}
		return peers[rank].Cert, true
	}
	e.dialer = &dialer{
		handshaker: h,
		cfg:        e.cfg,
		own:        e.addrs,
		peers:      peers,
	}
	e.acceptor = newAcceptor(h, e.listeners, e.timeout, e.welcome())
	return nil
}

// Dial makes all connections to a higher rank, by stripe. It tries until ctx ends.
func (e *Endpoint) Dial(ctx context.Context, rank int) ([]*Conn, error) {
	conns, err := e.dialer.dial(ctx, rank, e.dialer.peers[rank].Addrs)
	if err != nil {
		return nil, err
	}
	return prepareAll(conns, e.cfg)
}

// welcome returns the function that prepares a lane's connection and hands it on.
func (e *Endpoint) welcome() Lanes {
	if e.lanes == nil {
		return nil
	}
	return func(rank, stripe, lane int, conn *Conn) bool {
		return conn.prepare(e.cfg) == nil && e.lanes(rank, stripe, lane, conn)
	}
}

// DialLane tries once to add a connection to a stripe of a higher rank, from one of this rank's
// addresses to one of the other's. Lane is 1 or above.
func (e *Endpoint) DialLane(ctx context.Context, rank, stripe, lane int, from netip.Addr, to netip.AddrPort) (*Conn,
	error) {
	if len(e.dialer.dialable(to)) == 0 {
		return nil, ErrNoAddress
	}
	conn, err := e.dialer.onceLane(ctx, rank, stripe, lane, from, to)
	if err != nil {
		return nil, err
	}
	conns, err := prepareAll([]*Conn{conn}, e.cfg)
	if err != nil {
		return nil, err
	}
	return conns[0], nil
}

// Take returns the connections of a lower rank, by stripe, or nil if not all have arrived.
// The caller owns them; a rank's connections can be taken once.
func (e *Endpoint) Take(rank int) ([]*Conn, error) {
	conns, ok := e.acceptor.take(rank)
	if !ok {
		return nil, nil
	}
	return prepareAll(conns, e.cfg)
}

// Arrived holds an element if a connection has arrived since the last receive from it.
func (e *Endpoint) Arrived() <-chan struct{} { return e.acceptor.arrived }

// Close closes the listeners and all connections that were not taken, and waits for the
// endpoint's goroutines.
func (e *Endpoint) Close() {
	for _, l := range e.listeners {
		l.Close()
	}
	if e.acceptor != nil {
		e.acceptor.close()
	}
}

// listenOn opens a port on each of addrs that works, and fails if none does.
func (c Config) listenOn(ctx context.Context, addrs []netip.Addr) (all []*listener, err error) {
	errs := []error{errors.New("no address to listen on")}
	for _, addr := range addrs {
		l, err := c.listenFor(ctx, addr, addrs)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// listenFor opens a port on addr, or on the local address that routes to it unless that
// is in all as well.
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
	c.Sockets.report(tcp.TCPListener, true)
	return tcp, nil
}

// ownAddr returns the local address that routes to addr. Connecting a datagram socket
// sends nothing.
func ownAddr(ctx context.Context, addr netip.Addr) (netip.Addr, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", netip.AddrPortFrom(addr, 9).String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return plain(conn.LocalAddr()).Addr(), nil
}

// plain returns a socket's address, with IPv4-mapped IPv6 as IPv4.
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
