// Package tcp carries flows between the ranks of a job over authenticated TCP
// connections. Any two ranks share one link, which is made when it is first needed
// and has one or more connections, its stripes.
package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// MaxStripes is how many connections a link can have.
const MaxStripes = 16

// linkTimeout bounds how long Run tries to reach a rank it has no link to.
const linkTimeout = 30 * time.Second

// Config says how a Net moves data.
type Config struct {
	Stripes    int    // connections of a link, 1 to MaxStripes; the same on all ranks
	Congestion string // TCP congestion control of all connections; empty leaves the choice to the kernel, and to the package between ranks of one host
	Guard      Guard  // of data on its way; the same on all ranks
	Kernels    kernel.Set
	// Spin is how long a rank looks for bytes before it sleeps. It is for ranks that have
	// a processor each.
	Spin time.Duration
	// Compare says how another rank's sign stands to this one's, so that ranks in different
	// calls that wait for each other find out. Nil finds nothing out. The last byte of
	// a sign is the package's own, and 0 in those of flows.
	Compare func(mine, theirs *flow.Sign) Relation
	Sockets Sockets // nil tells nobody
}

// Net is one rank's place among the ranks of a communicator. Listen, Meet and then
// any number of Connect and Run make up its life, one call at a time. Interrupt may
// come from any goroutine.
type Net struct {
	cfg       Config
	listeners []*listener
	addrs     []netip.AddrPort
	own       *credentials // nil where data is not encrypted

	peers  []Peer // by rank; nil before Meet
	rank   int
	dialer *dialer
	lobby  *lobby

	streams []*stream // by stripe; the first is the caller's
	flows   uint64    // so far
	doubted flow.Sign // of the call in which Doubt last looked
	working sync.WaitGroup
	busy    sync.WaitGroup // workers that carry their stripe of the flow

	life   context.Context // ends with Interrupt
	end    context.CancelFunc
	halted atomic.Bool // interrupted or failed: no stream goes on

	mu    sync.Mutex // for what Interrupt and the workers touch
	links []*link    // by rank
	err   error      // why the Net is of no use any more
}

// Peer is what a rank tells the others of itself, on a way that they trust.
type Peer struct {
	Addrs []netip.AddrPort // at which it may be reached, the best first
	Cert  Fingerprint      // of what it shows where data is encrypted
}

func newNet(cfg Config, listeners []*listener, own *credentials) *Net {
	n := &Net{cfg: cfg, listeners: listeners, own: own}
	n.life, n.end = context.WithCancel(context.Background())
	for _, l := range listeners {
		n.addrs = append(n.addrs, plain(l.Addr()))
	}
	for i := range cfg.Stripes {
		n.streams = append(n.streams, newStream(n, i))
	}
	return n
}

// Addrs is where other ranks find this one: an address and port for each listener.
func (n *Net) Addrs() []netip.AddrPort { return slices.Clone(n.addrs) }

// Cert is the fingerprint by which other ranks know this one, where data is encrypted.
func (n *Net) Cert() Fingerprint {
	if n.own == nil {
		return Fingerprint{}
	}
	return n.own.mark
}

// Meet tells who all the ranks are, by rank, self among them. From now on the lower
// ranks are let in.
func (n *Net) Meet(self Identity, peers []Peer) error {
	if n.peers != nil {
		return errors.New("the ranks have met before")
	}
	if self.Size < 1 || self.Rank < 0 || self.Rank >= self.Size || len(peers) != self.Size {
		return fmt.Errorf("rank %d of %d meets %d ranks", self.Rank, self.Size, len(peers))
	}
	s, err := newShaker(self, n.cfg.Stripes)
	if err != nil {
		return err
	}
	n.rank, n.peers = self.Rank, slices.Clone(peers)
	s.guard, s.credentials, s.peers = n.cfg.Guard, n.own, n.peers
	n.links = make([]*link, self.Size)
	n.dialer = &dialer{shaker: s, cfg: n.cfg, own: n.addrs}
	n.lobby = newLobby(s, n.listeners)
	return nil
}

// Connect returns when there is a link to each of ranks. Of two ranks the lower one
// dials, in Connect or Run; the higher one lets it in at any time after Meet. The
// error is a [*PeerError], ErrInterrupted, or the cause of ctx's end when that was not
// its deadline. What is linked by then stays so, and Connect may be tried again.
func (n *Net) Connect(ctx context.Context, ranks []int) error {
	if err := n.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(n.life, cancel)
	defer stop()
	return n.connect(ctx, ctx, ranks)
}

// connect dials until dialing ends, and waits for who dials until waiting ends.
func (n *Net) connect(dialing, waiting context.Context, ranks []int) error {
	var higher, lower []int
	for _, rank := range ranks {
		switch {
		case rank < 0 || rank >= len(n.links) || rank == n.rank:
			return fmt.Errorf("rank %d of %d has no link to rank %d", n.rank, len(n.links), rank)
		case n.links[rank] != nil:
		case rank > n.rank:
			higher = append(higher, rank)
		default:
			lower = append(lower, rank)
		}
	}
	slices.Sort(higher)
	err := n.reach(dialing, slices.Compact(higher))
	if err == nil {
		err = n.receive(waiting, lower)
	}
	if err == nil {
		return nil
	}
	if n.life.Err() != nil {
		return ErrInterrupted
	}
	if errors.Is(waiting.Err(), context.Canceled) {
		return context.Cause(waiting)
	}
	return err
}

// reach dials ranks, all at once. What is linked when one of them fails stays so.
func (n *Net) reach(ctx context.Context, ranks []int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		dialing sync.WaitGroup
		mu      sync.Mutex
		first   error
	)
	for _, rank := range ranks {
		dialing.Go(func() {
			conns, err := n.dialer.dial(ctx, rank, n.peers[rank].Addrs)
			if err == nil {
				err = n.adopt(rank, conns)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = &PeerError{rank, err}
				cancel()
			}
		})
	}
	dialing.Wait()
	return first
}

// receive waits until all of ranks have dialed this one.
func (n *Net) receive(ctx context.Context, ranks []int) error {
	for _, rank := range ranks {
		for n.links[rank] == nil {
			if conns, ok := n.lobby.take(rank); ok {
				if err := n.adopt(rank, conns); err != nil {
					return &PeerError{rank, err}
				}
				break
			}
			select {
			case <-n.lobby.arrived:
			case <-ctx.Done():
				return &PeerError{rank, errAbsent}
			}
		}
	}
	return nil
}

// adopt makes conns the link to a rank.
func (n *Net) adopt(rank int, conns []*line) error {
	l, err := newLink(rank, conns, n.cfg)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[rank] = l
	if n.err != nil {
		l.wake()
	}
	return nil
}

// Interrupt makes pending and later calls of Connect and Run fail at once with
// ErrInterrupted, for good. The other ranks are not told.
func (n *Net) Interrupt() {
	n.end()
	n.fail(ErrInterrupted)
}

// fail wakes all who wait for a link. The first reason is kept, but for
// ErrInterrupted, which wins.
func (n *Net) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil || err == ErrInterrupted {
		n.err = err
	}
	n.halted.Store(true)
	for _, l := range n.links {
		if l != nil {
			l.wake()
		}
	}
}

// usable returns why calls cannot be served, or nil.
func (n *Net) usable() error {
	if n.peers == nil {
		return errors.New("the ranks have not met")
	}
	if !n.halted.Load() {
		return nil
	}
	return n.failure()
}

func (n *Net) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Close ends all links and goroutines of the Net. The other ranks still get what
// was sent. Call it when no other call is running, but for Interrupt.
func (n *Net) Close() error {
	n.end()
	for _, l := range n.listeners {
		l.Close()
	}
	if n.lobby != nil {
		n.lobby.close()
	}
	n.dismiss()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = ErrClosed
	}
	n.halted.Store(true)
	var errs []error
	for i, l := range n.links {
		if l != nil {
			errs = append(errs, l.close())
			n.links[i] = nil
		}
	}
	return errors.Join(errs...)
}
