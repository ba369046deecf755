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

// lobby is where incoming connections prove who they are, and wait until they are
// taken. All ranks below this one may come, each with as many connections as a link
// has stripes. When all are in, the listeners are closed.
type lobby struct {
	shaker    *shaker
	listeners []*listener
	arrived   chan struct{} // holds something when a connection has come in since it was read

	mu        sync.Mutex
	strangers []*line // oldest first
	parties   []party // by rank
	missing   int     // connections that are not in
	closed    bool
	serving   sync.WaitGroup
	shaking   sync.WaitGroup
}

// party is the connections of one rank.
type party struct {
	conns     [MaxStripes]*line // by stripe
	confirmed [MaxStripes]bool  // the rank knows that this one is in
	in        int               // how many are confirmed
	taken     bool              // by their user: a lost one is not replaced
}

// newLobby opens the doors: s and the listeners are its own from now on.
func newLobby(s *shaker, listeners []*listener) *lobby {
	l := &lobby{
		shaker: s, listeners: listeners, arrived: make(chan struct{}, 1),
		parties: make([]party, s.self.Rank), missing: s.self.Rank * s.stripes,
	}
	for _, tcp := range listeners {
		l.serving.Go(func() { l.serve(tcp) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fill()
	return l
}

// serve takes connections until the listener is closed.
func (l *lobby) serve(tcp *listener) {
	for {
		conn, err := tcp.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or a caller that left: neither is for good
			time.Sleep(5 * time.Millisecond)
			continue
		}
		comer := &line{TCPConn: conn}
		if !l.enter(comer) {
			conn.Close()
			continue
		}
		l.shaking.Go(func() {
			if !l.shake(comer) {
				conn.Close()
			}
		})
	}
}

// shake gives conn its one chance. It reports whether conn is now a rank's.
func (l *lobby) shake(conn *line) bool {
	defer l.leave(conn)
	if conn.SetDeadline(time.Now().Add(shakeTimeout)) != nil {
		return false
	}
	var got seat
	placed := false
	_, err := l.shaker.accept(conn, func(s seat) bool {
		got, placed = s, l.place(s, conn)
		return placed
	})
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		conn.detach()
		l.confirm(got, conn)
		return true
	}
	if placed {
		l.unplace(got, conn)
	}
	return false
}

// enter counts conn among the strangers. When there are too many, the oldest
// goes: a rank that loses its turn so will dial again.
func (l *lobby) enter(conn *line) bool {
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

func (l *lobby) leave(conn *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(conn)
}

func (l *lobby) forget(conn *line) {
	for i, c := range l.strangers {
		if c == conn {
			l.strangers = append(l.strangers[:i:i], l.strangers[i+1:]...)
			return
		}
	}
}

// place gives a seat to conn. The first keeps it, unless it has hung up since, and
// nobody has taken it: a dialer that ran out of time and tries again.
func (l *lobby) place(s seat, conn *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || s.rank >= len(l.parties) || l.parties[s.rank].taken {
		return false
	}
	p := &l.parties[s.rank]
	if first := p.conns[s.stripe]; first != nil {
		if !hungUp(first) {
			return false
		}
		first.Close()
		l.vacate(s)
	}
	l.forget(conn) // no longer a stranger: a flood cannot push it out
	p.conns[s.stripe] = conn
	return true
}

// unplace takes the seat back from a conn that broke on its last step.
func (l *lobby) unplace(s seat, conn *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parties[s.rank].conns[s.stripe] == conn {
		l.vacate(s)
	}
}

func (l *lobby) vacate(s seat) {
	p := &l.parties[s.rank]
	p.conns[s.stripe] = nil
	if p.confirmed[s.stripe] {
		p.confirmed[s.stripe] = false
		p.in--
		l.missing++
	}
}

// confirm notes that the rank knows it is in.
func (l *lobby) confirm(s seat, conn *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.parties[s.rank]
	if l.closed || p.conns[s.stripe] != conn {
		return
	}
	p.confirmed[s.stripe] = true
	p.in++
	l.missing--
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	l.fill()
}

// fill closes the doors when nobody is missing.
func (l *lobby) fill() {
	if l.missing == 0 {
		l.shut()
	}
}

// shut closes the doors and sends the strangers away.
func (l *lobby) shut() {
	l.closed = true
	for _, tcp := range l.listeners {
		tcp.Close()
	}
	for _, c := range l.strangers {
		c.Close()
	}
}

// take returns the connections of a rank by stripe, if all are in. They are the
// caller's then.
func (l *lobby) take(rank int) (conns []*line, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.parties[rank]
	if p.taken || p.in < l.shaker.stripes {
		return nil, false
	}
	p.taken = true
	conns = append(conns, p.conns[:l.shaker.stripes]...)
	clear(p.conns[:])
	return conns, true
}

// close shuts the lobby, waits for the handshakes under way, and closes what nobody
// has taken.
func (l *lobby) close() {
	l.mu.Lock()
	l.shut()
	l.mu.Unlock()
	l.serving.Wait()
	l.shaking.Wait()
	for i := range l.parties {
		for _, conn := range l.parties[i].conns {
			if conn != nil {
				conn.Close()
			}
		}
	}
}

// hungUp reports whether the other end of conn has closed it.
func hungUp(conn *line) bool {
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
