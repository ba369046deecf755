package admit

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// MaxPending bounds the connections of the zero [Pending].
const MaxPending = 256

// Bounds is the most connections of each kind of peer that may be pending, so that another user of
// the machine cannot keep those of this user out, nor those of other machines.
type Bounds struct{ Own, Other, Elsewhere int }

// Pending is connections that have not shown yet that they may stay. Beyond a bound the oldest of
// its kind is closed. The zero Pending is ready for use: it asks nobody who the peers are, and has
// room for [MaxPending] together. It is safe for concurrent use.
type Pending struct {
	bounds *Bounds
	of     func(net.Conn) Peer

	mu     sync.Mutex
	conns  [kinds][]net.Conn // connections by kind of peer, oldest first
	closed bool
}

// NewPending returns a Pending that bounds each kind of peer by itself.
func NewPending(b Bounds) *Pending { return &Pending{bounds: &b, of: PeerOf} }

// kind returns the kind of peer that a connection counts as, and the bound of that kind.
func (p *Pending) kind(conn net.Conn) (Peer, int) {
	if p.bounds == nil {
		return Own, MaxPending
	}
	peer := p.of(conn)
	return peer, [kinds]int{p.bounds.Own, p.bounds.Other, p.bounds.Elsewhere}[peer]
}

// Serve accepts connections until the listener is closed, and calls admit for each on a goroutine
// of its own. admit owns the connection, and calls Remove once it has authenticated. The other end
// of a connection that is closed because there are too many dials again. Serve returns when all
// calls have; the pending connections are closed then.
func (p *Pending) Serve(l net.Listener, admit func(conn net.Conn)) {
	var work sync.WaitGroup
	defer work.Wait()
	defer p.Close()
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no free descriptor, or a caller that hung up: both pass
			time.Sleep(5 * time.Millisecond)
		case p.add(conn):
			work.Go(func() { admit(conn) })
		default:
			conn.Close()
		}
	}
}

// add returns false after Close.
func (p *Pending) add(conn net.Conn) bool {
	kind, most := p.kind(conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	queue := p.conns[kind]
	if len(queue) >= most {
		inner(queue[0]).Close()
		queue = queue[1:]
	}
	p.conns[kind] = append(queue, conn)
	return true
}

// Remove ends a connection's time as a pending one. It reports whether the connection was one.
func (p *Pending) Remove(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kind, queue := range p.conns {
		if i := slices.Index(queue, conn); i >= 0 {
			p.conns[kind] = append(queue[:i:i], queue[i+1:]...)
			return true
		}
	}
	return false
}

// Len returns the number of pending connections.
func (p *Pending) Len() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, queue := range p.conns {
		n += len(queue)
	}
	return n
}

// Close closes all pending connections, and those that come later.
func (p *Pending) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, queue := range p.conns {
		for _, conn := range queue {
			inner(conn).Close()
		}
	}
}
