// Package tcp carries flows between the ranks of a job over authenticated TCP
// connections. Two ranks share one link of one or more connections, its stripes. A link
// is made when it is first needed.
package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/rails"
)

// linkTimeout bounds how long Run dials a rank.
const linkTimeout = 30 * time.Second

// Config configures a [Net].
type Config struct {
	secure.Config
	Kernels kernel.Set
	// Spin is how long a rank polls for bytes before it sleeps. Set it only if every rank
	// has its own processor.
	Spin time.Duration
	// Rails is the most rails between two ranks; 0: all. It must be the same on all ranks.
	Rails int
	// Compare relates another rank's sign to this one's, so that ranks in different calls
	// that wait for each other find out. Nil disables this. The last byte of a sign is
	// reserved, and 0 in those of flows.
	Compare func(mine, theirs *flow.Sign) Relation
}

// Net is one rank of a communicator. Its life is Listen, Meet and then any number of
// Connect and Run, one call at a time. Interrupt may be called concurrently.
type Net struct {
	cfg      Config
	endpoint *secure.Endpoint
	rank     int

	streams []*stream // streams by stripe; the caller runs the first
	flows   uint64    // flows so far
	checked flow.Sign // sign of the call in which CheckCalls last ran
	working sync.WaitGroup
	busy    sync.WaitGroup // workers that carry their stripe of the flow

	life   context.Context // ends with Interrupt
	end    context.CancelFunc
	halted atomic.Bool // interrupted or failed: all streams stop

	mu    sync.Mutex        // guard of state that Interrupt and the workers share
	links []*link           // links by rank; nil before Meet
	pairs [][]rails.Pairing // rails by rank
	err   error             // why the Net is unusable
}

// Listen opens a port on each of addrs: see [secure.Listen].
func Listen(ctx context.Context, addrs []netip.Addr, cfg Config) (*Net, error) {
	endpoint, err := secure.Listen(ctx, addrs, cfg.Config)
	if err != nil {
		return nil, err
	}
	n := &Net{cfg: cfg, endpoint: endpoint}
	n.life, n.end = context.WithCancel(context.Background())
	for i := range cfg.Stripes {
		n.streams = append(n.streams, newStream(n, i))
	}
	return n, nil
}

// Addrs returns the address and port of each listener.
func (n *Net) Addrs() []netip.AddrPort { return n.endpoint.Addrs() }

// Cert returns the fingerprint of this rank's certificate; zero unless data is encrypted.
func (n *Net) Cert() secure.Fingerprint { return n.endpoint.Cert() }

// Meet sets the identity of this rank and the peers, by rank, self included. From now on
// connections of lower ranks are accepted.
func (n *Net) Meet(self secure.Identity, peers []secure.Peer) error {
	if self.Rank >= 0 && self.Rank < len(peers) {
		n.plan(self.Rank, peers)
	}
	if err := n.endpoint.Meet(self, peers); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rank = self.Rank
	n.links = make([]*link, self.Size)
	return nil
}

// plan finds the rails to each rank. Lower ranks may add lanes.
func (n *Net) plan(own int, peers []secure.Peer) {
	welcome := false
	limit := cmp.Or(n.cfg.Rails, rails.Most)
	n.pairs = make([][]rails.Pairing, len(peers))
	for rank := range peers {
		low := min(own, rank)
		high := max(own, rank)
		if low == high {
			continue
		}
		if pairs := rails.Pair(peers[low].Rails, peers[high].Rails, limit); len(pairs) > 1 {
			n.pairs[rank] = pairs
			welcome = welcome || rank < own
		}
	}
	if welcome {
		n.endpoint.Welcome(n.addLane)
	}
}

// addLane gives a lower rank's connection to the stream that it belongs to.
func (n *Net) addLane(rank, stripe, lane int, conn *secure.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if rank >= len(n.links) || n.links[rank] == nil || n.err != nil {
		return false
	}
	s, ok := n.links[rank].conns[stripe].(*rails.Stream)
	return ok && s.Add(lane, conn)
}

// Connect returns when there is a link to each of ranks. Of two ranks the lower one
// dials, in Connect or Run; the higher one accepts at any time after Meet. The error is a
// [*PeerError], ErrInterrupted, or the cause of ctx's end unless that was its deadline.
// Links that were made remain, and Connect may be called again.
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

// connect dials higher ranks until dialing ends, and waits for lower ones until waiting
// ends.
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

// reach dials all ranks concurrently. Links that were made when one fails remain.
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
			conns, err := n.endpoint.Dial(ctx, rank)
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

// receive waits until all ranks have dialed this one.
func (n *Net) receive(ctx context.Context, ranks []int) error {
	for _, rank := range ranks {
		for {
			if err := n.accept(rank); err != nil {
				return err
			}
			if n.links[rank] != nil {
				break
			}
			select {
			case <-n.endpoint.Arrived():
			case <-ctx.Done():
				return &PeerError{rank, errAbsent}
			}
		}
	}
	return nil
}

// accept makes the link to a lower rank if that has dialed.
func (n *Net) accept(rank int) error {
	if n.links[rank] != nil {
		return nil
	}
	conns, err := n.endpoint.Take(rank)
	if err == nil && conns != nil {
		err = n.adopt(rank, conns)
	}
	if err != nil {
		return &PeerError{rank, err}
	}
	return nil
}

// adopt makes conns the link to a rank.
func (n *Net) adopt(rank int, conns []*secure.Conn) error {
	l, err := n.newLink(rank, conns)
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

// Trip returns the longest of the shortest round trips to the ranks that this one has links to, or
// 0 if none is known. It runs between flows.
func (n *Net) Trip() (longest time.Duration) {
	for _, l := range n.links {
		if l != nil {
			longest = max(longest, l.conns[0].Trip())
		}
	}
	return longest
}

// Interrupt makes pending and later calls of Connect and Run fail at once with
// ErrInterrupted. The other ranks notice nothing.
func (n *Net) Interrupt() {
	n.end()
	n.fail(ErrInterrupted)
}

// fail ends all waits for links. The first error is kept, unless ErrInterrupted replaces
// it.
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

// usable returns the error of a Net that has not met, was interrupted or failed.
func (n *Net) usable() error {
	if n.links == nil {
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

// Close ends all links and goroutines of the Net. Sent data still arrives. Only Interrupt
// may run at the same time.
func (n *Net) Close() error {
	n.end()
	n.endpoint.Close()
	n.stopWorkers()
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

var (
	// ErrClosed means that the other rank has exited or closed the link.
	ErrClosed = errors.New("connection closed")
	// ErrInterrupted reports a call of Interrupt.
	ErrInterrupted = errors.New("interrupted")

	errAbsent = errors.New("no connection came from it")
)

// PeerError reports a rank whose link could not be made or failed.
type PeerError struct {
	Rank int
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *PeerError) Unwrap() error { return e.Err }

// SignError reports a rank in another flow than this one.
type SignError struct {
	Rank   int
	Theirs flow.Sign
}

func (e *SignError) Error() string { return fmt.Sprintf("rank %d is in another flow", e.Rank) }

// deliverTimeout bounds Deliver for ranks that do not read. After Close the kernel still
// sends to such a rank, unless that rank has sent a note.
const deliverTimeout = 5 * time.Second

// Deliver returns when the kernel has sent all data, but at most five seconds later for
// ranks that do not read, and at once for ranks that exited or whose network is dead. Call
// it before Close unless something failed: closing a connection with unread input, such as
// a note, resets it and loses unsent data. See RFC 2525, section 2.17.
func (n *Net) Deliver() {
	deadline := time.Now().Add(deliverTimeout)
	var junk [4 << 10]byte
	for _, l := range n.links {
		if l == nil {
			continue
		}
		for _, c := range l.conns {
			deliver(c, deadline, junk[:])
		}
	}
}

// deliver waits for one connection. It discards received bytes, so that the kernel does
// not reset the connection because of them.
func deliver(c conn, deadline time.Time, junk []byte) {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		c.Discard(junk)
		if c.Unsent() == 0 || c.Silent() != nil || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}
