package secure

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// MaxPending bounds the connections of a [Pending].
const MaxPending = 256

// Pending is connections that have not authenticated yet, at most [MaxPending]. The zero Pending is
// ready for use, and safe for concurrent use.
type Pending struct {
	mu     sync.Mutex
	conns  []net.Conn // connections, oldest first
	closed bool
}

// Serve accepts connections until the listener is closed, and calls admit for each on a goroutine
// of its own. admit owns the connection, and calls Remove once it has authenticated. If there are
// too many before that, Serve closes the oldest, whose other end dials again. Serve returns when
// all calls have; the pending connections are closed then.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if len(p.conns) >= MaxPending {
		p.conns[0].Close()
		p.conns = p.conns[1:]
	}
	p.conns = append(p.conns, conn)
	return true
}

// Remove ends a connection's time as a pending one. It reports whether the connection was one.
func (p *Pending) Remove(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.conns, conn)
	if i >= 0 {
		p.conns = append(p.conns[:i:i], p.conns[i+1:]...)
	}
	return i >= 0
}

// Len returns how many there are.
func (p *Pending) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Close closes all pending connections, and those that come later.
func (p *Pending) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conn := range p.conns {
		conn.Close()
	}
}
