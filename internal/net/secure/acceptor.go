package secure

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/admit"
)

const handshakeTimeout = 5 * time.Second // bound on one whole handshake

// acceptor authenticates incoming connections and keeps them until they are taken. It
// accepts one connection per stripe from each lower rank, and closes the listeners when
// all have arrived, unless it accepts lanes.
type acceptor struct {
	handshaker *handshaker
	listeners  []*listener
	timeout    time.Duration // bound on one handshake
	arrived    chan struct{} // see Endpoint.Arrived
	lanes      Lanes         // nil: none are accepted
	pending    admit.Pending

	mu      sync.Mutex
	inbound []inbound // by rank
	missing int       // connections that have not arrived
	closed  bool
	serving sync.WaitGroup
}

// inbound is the connections of one lower rank.
type inbound struct {
	conns     [MaxStripes]*Conn // by stripe
	confirmed [MaxStripes]bool  // the dialer knows that its connection was accepted
	arrived   int               // count of confirmed
	taken     bool              // whether the caller has the connection: a lost one is not replaced
}

// newAcceptor starts to accept. It owns the listeners.
func newAcceptor(h *handshaker, listeners []*listener, timeout time.Duration, lanes Lanes) *acceptor {
	a := &acceptor{
		handshaker: h,
		listeners:  listeners,
		timeout:    timeout,
		lanes:      lanes,
		arrived:    make(chan struct{}, 1),
		inbound:    make([]inbound, h.self.Rank),
		missing:    h.self.Rank * h.stripes,
	}
	for _, l := range listeners {
		a.serving.Go(func() {
			a.pending.Serve(l.TCPListener, func(tcp net.Conn) {
				conn := &Conn{TCPConn: tcp.(*net.TCPConn)}
				if !a.authenticate(conn) {
					conn.Close()
				}
			})
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shutIfComplete()
	return a
}

// authenticate does the handshake. It reports whether conn is now a rank's.
func (a *acceptor) authenticate(conn *Conn) bool {
	defer a.pending.Remove(conn.TCPConn)
	if conn.SetDeadline(time.Now().Add(a.timeout)) != nil {
		return false
	}
	var got slot
	reserved := false
	_, err := a.handshaker.accept(conn, func(s slot) bool {
		if got = s; s.lane > 0 {
			return a.lanes != nil && a.admits(s, conn)
		}
		reserved = a.reserve(s, conn)
		return reserved
	})
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		conn.detach()
		if got.lane > 0 {
			return a.lanes(got.rank, got.stripe, got.lane, conn)
		}
		a.confirm(got, conn)
		return true
	}
	if reserved {
		a.release(got, conn)
	}
	return false
}

// reserve gives the slot to conn unless another connection has it. One that has hung up
// before it was taken is replaced: its dialer ran out of time and tries again.
func (a *acceptor) reserve(s slot, conn *Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || s.rank >= len(a.inbound) || a.inbound[s.rank].taken {
		return false
	}
	p := &a.inbound[s.rank]
	if first := p.conns[s.stripe]; first != nil {
		if !hungUp(first) {
			return false
		}
		first.Close()
		a.vacate(s)
	}
	a.pending.Remove(conn.TCPConn)
	p.conns[s.stripe] = conn
	return true
}

// admits reports whether a rank may add a lane: its first connections must have been taken.
func (a *acceptor) admits(s slot, conn *Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || s.rank >= len(a.inbound) || !a.inbound[s.rank].taken {
		return false
	}
	a.pending.Remove(conn.TCPConn)
	return true
}

// release takes the slot back from a conn whose handshake failed at its last step.
func (a *acceptor) release(s slot, conn *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inbound[s.rank].conns[s.stripe] == conn {
		a.vacate(s)
	}
}

func (a *acceptor) vacate(s slot) {
	p := &a.inbound[s.rank]
	p.conns[s.stripe] = nil
	if p.confirmed[s.stripe] {
		p.confirmed[s.stripe] = false
		p.arrived--
		a.missing++
	}
}

// confirm records that the handshake of conn is complete on both sides.
func (a *acceptor) confirm(s slot, conn *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.inbound[s.rank]
	if a.closed || p.conns[s.stripe] != conn {
		return
	}
	p.confirmed[s.stripe] = true
	p.arrived++
	a.missing--
	select {
	case a.arrived <- struct{}{}:
	default:
	}
	a.shutIfComplete()
}

func (a *acceptor) shutIfComplete() {
	if a.missing == 0 && a.lanes == nil {
		a.shut()
	}
}

// shut closes the listeners and the connections that have not authenticated.
func (a *acceptor) shut() {
	a.closed = true
	for _, l := range a.listeners {
		l.Close()
	}
	a.pending.Close()
}

// take returns the connections of a rank by stripe, if all have arrived. The caller owns
// them.
func (a *acceptor) take(rank int) (conns []*Conn, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.inbound[rank]
	if p.taken || p.arrived < a.handshaker.stripes {
		return nil, false
	}
	p.taken = true
	conns = append(conns, p.conns[:a.handshaker.stripes]...)
	clear(p.conns[:])
	return conns, true
}

// close shuts the acceptor, waits for its goroutines, and closes connections that were
// not taken.
func (a *acceptor) close() {
	a.mu.Lock()
	a.shut()
	a.mu.Unlock()
	a.serving.Wait()
	for i := range a.inbound {
		closeAll(a.inbound[i].conns[:])
	}
}

// hungUp reports whether the other end of conn has closed it.
func hungUp(conn *Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	closed := true
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
		closed = err == nil && n == 0 || err != nil && !errors.Is(err, unix.EAGAIN)
	})
	return err != nil || closed
}
