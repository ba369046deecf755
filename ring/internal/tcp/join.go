package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Peer is a rank to be linked to.
type Peer struct {
	Rank int
	Addr netip.AddrPort
}

// PeerError says which rank could not be linked to.
type PeerError struct {
	Rank int
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *PeerError) Unwrap() error { return e.Err }

// Join links self to all peers, each of which must call Join as well with self
// among its peers, and closes the listener. Of two ranks the lower one dials. It
// returns the links by rank; on error none is left open, and the error is a
// [*PeerError], or the cause of ctx's end when that was not its deadline.
func (l *Listener) Join(ctx context.Context, self Identity, peers []Peer) (map[int]*Link, error) {
	defer l.Close()
	s, err := newShaker(self)
	if err != nil {
		return nil, err
	}
	var higher []Peer
	var lower []int
	for _, p := range peers {
		if p.Rank > self.Rank {
			higher = append(higher, p)
		} else {
			lower = append(lower, p.Rank)
		}
	}
	lobby := newLobby(s, lower)
	var serving sync.WaitGroup
	serving.Go(func() { lobby.serve(l.tcp) })

	conns, err := s.dialAll(ctx, higher)
	if err == nil {
		select {
		case <-lobby.full:
		case <-ctx.Done():
			err = &PeerError{lobby.absent(), errors.New("no connection came from it")}
		}
	}
	l.Close()
	serving.Wait()
	for rank, conn := range lobby.close() {
		conns[rank] = conn
	}
	if err == nil && len(conns) < len(peers) {
		err = &PeerError{lobby.absent(), ErrClosed}
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = context.Cause(ctx)
	}
	return link(conns, err)
}

// link turns conns into links, or closes them all when there was or is an error.
func link(conns map[int]*net.TCPConn, err error) (map[int]*Link, error) {
	links := map[int]*Link{}
	for rank, conn := range conns {
		if err == nil {
			var l *Link
			if l, err = NewLink(conn); err == nil {
				links[rank] = l
				continue
			}
			err = &PeerError{rank, err}
		}
		conn.Close()
	}
	if err == nil {
		return links, nil
	}
	for _, l := range links {
		l.Close()
	}
	return nil, err
}

// dialAll connects to all peers at once. It returns what it has, and the first error.
func (s *shaker) dialAll(ctx context.Context, peers []Peer) (map[int]*net.TCPConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		dialing sync.WaitGroup
		mu      sync.Mutex
		first   error
	)
	conns := map[int]*net.TCPConn{}
	for _, p := range peers {
		dialing.Go(func() {
			conn, err := s.dialPeer(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				conns[p.Rank] = conn
			} else if first == nil {
				first = &PeerError{p.Rank, err}
				cancel()
			}
		})
	}
	dialing.Wait()
	return conns, first
}

// dialPeer tries until it is in or ctx ends: the peer may be flooded by
// strangers, or the network slow to let the first packets through. It returns
// the error of the last try.
func (s *shaker) dialPeer(ctx context.Context, p Peer) (*net.TCPConn, error) {
	var last error
	pause := 10 * time.Millisecond
	for {
		conn, err := s.dialOnce(ctx, p)
		if err == nil {
			return conn, nil
		}
		if last == nil || ctx.Err() == nil { // else it only says that ctx has ended
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("at %s: %w", p.Addr, last)
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func (s *shaker) dialOnce(ctx context.Context, p Peer) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: shakeTimeout}
	dialer.SetMultipathTCP(false)
	c, err := dialer.DialContext(ctx, "tcp", p.Addr.String())
	if err != nil {
		return nil, err
	}
	conn := c.(*net.TCPConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = conn.SetDeadline(time.Now().Add(shakeTimeout))
	if err == nil {
		err = s.dial(conn, p.Rank)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrRefused
		}
		return nil, err
	}
	return conn, nil
}
