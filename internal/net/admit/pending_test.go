package admit

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// pendingOf returns a Pending that takes connections for those of a peer as of says, and how one
// comes.
func pendingOf(t *testing.T, b Bounds, of func() Peer) (*Pending, func() net.Conn) {
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	p := NewPending(b)
	p.of = func(net.Conn) Peer { return of() }
	g := p.Listener(l)
	t.Cleanup(func() { l.Close() })
	return p, func() net.Conn {
		conn := must.Get(net.Dial("tcp4", l.Addr().String()))(t)
		t.Cleanup(func() { conn.Close() })
		c := must.Get(g.Accept())(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, net.ErrClosed)
}

func TestPendingConnectionsOfOthersCloseNoneOfTheUsers(t *testing.T) {
	bounds := Bounds{Own: 32, Other: 4, Elsewhere: 8}
	peer := Own
	p, come := pendingOf(t, bounds, func() Peer { return peer })
	mine := come()
	peer = Elsewhere
	remote := come()
	peer = Other
	var others []net.Conn
	for range bounds.Other + 1 {
		others = append(others, come())
	}
	check.That(t, !closed(mine) && !closed(remote) && closed(others[0]) && !closed(others[1]),
		"closed: own %v, of another machine %v, the first other %v, the second %v", closed(mine), closed(remote),
		closed(others[0]), closed(others[1]))
	p.Remove(others[1]) // it has shown its token
	for range 2 * bounds.Other {
		come()
	}
	check.That(t, !closed(others[1]), "pending connections closed one that had shown a token")
	peer = Own
	for range bounds.Own {
		come()
	}
	check.That(t, closed(mine), "own connections have no bound")
	check.Equal(t, p.Len(), bounds.Own+bounds.Other+1, "are pending")
	p.Close()
	check.That(t, closed(remote) && closed(come()), "connections stay open after the end")
}
