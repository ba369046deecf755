package secure

import (
	"net"
	"slices"
	"sync"
)

// MaxStrangers bounds the connections of a [Strangers].
const MaxStrangers = 256

// Strangers are connections that have not authenticated yet, at most [MaxStrangers]. The zero
// Strangers is ready for use, and safe for concurrent use.
type Strangers struct {
	mu     sync.Mutex
	conns  []net.Conn // the oldest first
	closed bool
}

// Add takes in a connection. If there are too many, it closes the oldest: who authenticates dials
// again. After Close it returns false.
func (s *Strangers) Add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.conns) >= MaxStrangers {
		s.conns[0].Close()
		s.conns = s.conns[1:]
	}
	s.conns = append(s.conns, conn)
	return true
}

// Remove takes a connection out: no flood closes it any more. It reports whether the connection was
// still there.
func (s *Strangers) Remove(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.conns, conn)
	if i >= 0 {
		s.conns = append(s.conns[:i:i], s.conns[i+1:]...)
	}
	return i >= 0
}

// Len returns how many there are.
func (s *Strangers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close closes them all, and takes in no more.
func (s *Strangers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.conns {
		conn.Close()
	}
}
