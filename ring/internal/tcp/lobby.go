package tcp

import (
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	shakeTimeout = 5 * time.Second // one handshake, whole
	maxStrangers = 256             // connections that have proven nothing yet
)

// lobby is where incoming connections prove who they are, and wait until all the
// expected ranks are in.
type lobby struct {
	shaker *shaker
	full   chan struct{} // closed when all expected ranks are in

	filled    sync.Once
	mu        sync.Mutex
	strangers []*net.TCPConn       // oldest first
	missing   map[int]bool         // expected ranks
	joined    map[int]*net.TCPConn // of them, those that are in
	closed    bool
	shaking   sync.WaitGroup
}

func newLobby(s *shaker, expected []int) *lobby {
	l := &lobby{shaker: s, full: make(chan struct{}), missing: map[int]bool{}, joined: map[int]*net.TCPConn{}}
	for _, rank := range expected {
		l.missing[rank] = true
	}
	l.fill()
	return l
}

// serve takes connections until the listener is closed, which its user does.
func (l *lobby) serve(tcp *net.TCPListener) {
	for {
		conn, err := tcp.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or a caller that left: neither is for good
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if !l.enter(conn) {
			conn.Close()
			continue
		}
		l.shaking.Go(func() {
			if !l.shake(conn) {
				conn.Close()
			}
		})
	}
}

// shake gives conn its one chance. It reports whether conn is now a rank's.
func (l *lobby) shake(conn *net.TCPConn) bool {
	defer l.leave(conn)
	if conn.SetDeadline(time.Now().Add(shakeTimeout)) != nil {
		return false
	}
	rank, err := l.shaker.accept(conn, func(rank int) bool { return l.place(rank, conn) })
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		l.unplace(conn)
		return false
	}
	l.confirm(rank)
	return true
}

// enter counts conn among the strangers. When there are too many, the oldest
// goes: a rank that loses its turn so will dial again.
func (l *lobby) enter(conn *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if len(l.strangers) >= maxStrangers {
		l.strangers[0].Close()
		l.strangers = l.strangers[1:]
	}
	l.strangers = append(l.strangers, conn)
	return true
}

func (l *lobby) leave(conn *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(conn)
}

func (l *lobby) forget(conn *net.TCPConn) {
	for i, c := range l.strangers {
		if c == conn {
			l.strangers = append(l.strangers[:i:i], l.strangers[i+1:]...)
			return
		}
	}
}

// place gives an expected rank's place to conn. The first keeps it, unless it has
// hung up since: a dialer that ran out of time and tries again.
func (l *lobby) place(rank int, conn *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, expected := l.missing[rank]; !expected || l.closed {
		return false
	}
	if first := l.joined[rank]; first != nil {
		if !hungUp(first) {
			return false
		}
		first.Close()
	}
	l.forget(conn) // no longer a stranger: a flood cannot push it out
	l.joined[rank] = conn
	return true
}

// unplace takes the place back from a conn that broke on its last step.
func (l *lobby) unplace(conn *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rank, c := range l.joined {
		if c == conn {
			delete(l.joined, rank)
			l.missing[rank] = true
		}
	}
}

// confirm notes that rank knows it is in.
func (l *lobby) confirm(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missing[rank] = false
	l.fill()
}

// fill tells when nobody is missing.
func (l *lobby) fill() {
	for _, missing := range l.missing {
		if missing {
			return
		}
	}
	l.filled.Do(func() { close(l.full) })
}

// close sends the strangers away, waits for the handshakes under way, and returns
// the connections of the ranks that are in. The listener is closed before.
func (l *lobby) close() map[int]*net.TCPConn {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.strangers {
		c.Close()
	}
	l.mu.Unlock()
	l.shaking.Wait()
	return l.joined
}

// absent returns an expected rank that is not in, or -1.
func (l *lobby) absent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := -1
	for rank, missing := range l.missing {
		if missing && (least < 0 || rank < least) {
			least = rank
		}
	}
	return least
}

// hungUp reports whether the other end of conn has closed it.
func hungUp(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT|unix.MSG_PEEK)
		gone = err == nil && n == 0 || err != nil && !errors.Is(err, unix.EAGAIN)
	})
	return err != nil || gone
}
