package kv

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
)

// Connections that have not shown a token yet are strangers: they wait in one of two rooms. The
// job's own user has the large one, so that nobody else on the host can fill it. Who came
// first goes first when a room is full. Each rank has places of its own besides: all may come at once, and find us busy.
const (
	ownRoom   = 256
	otherRoom = 16 // ranks in containers may be other users
	rankRoom  = 4  // for each rank, in both rooms
)

// gate is a listener that bounds strangers.
type gate struct {
	net.Listener
	own   func(net.Conn) bool // it is the job's user, as far as can be told
	ranks int

	mu    sync.Mutex
	rooms map[bool][]*guest // by own, oldest first
}

// guest is a connection that came through the gate.
type guest struct {
	net.Conn
	gate *gate
	own  bool
}

func newGate(l net.Listener, ranks int) *gate {
	return &gate{Listener: l, own: ownUser, ranks: ranks, rooms: map[bool][]*guest{}}
}

// ownUser reports whether this process's user, or root, has the other end of conn. Where the kernel
// does not tell, the token alone decides.
func ownUser(conn net.Conn) bool {
	uid, err := PeerUID(conn)
	if err != nil {
		return !errors.Is(err, ErrPeerUnknown)
	}
	return Own(uid)
}

// Own reports whether a user is this process's, or root, which ranks in containers may be.
func Own(uid uint32) bool {
	return uid == 0 || uid == uint32(os.Geteuid())
}

func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &guest{Conn: conn, gate: g, own: g.own(conn)}
	if oldest := g.enter(c); oldest != nil {
		_ = oldest.Conn.Close()
	}
	return c, nil
}

// enter takes a place for c, and returns who has lost one by it.
func (g *gate) enter(c *guest) (oldest *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	size := otherRoom
	if c.own {
		size = ownRoom
	}
	size += rankRoom * g.ranks
	room := g.rooms[c.own]
	if len(room) >= size {
		oldest, room = room[0], room[1:]
	}
	g.rooms[c.own] = append(room, c)
	return oldest
}

// leave takes c out of its room: it has shown a token, or is gone.
func (g *gate) leave(c *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	room := g.rooms[c.own]
	for i, other := range room {
		if other == c {
			g.rooms[c.own] = append(room[:i:i], room[i+1:]...)
			return
		}
	}
}

func (c *guest) Close() error {
	c.gate.leave(c)
	return c.Conn.Close()
}

type guestKey struct{}

// withGuest is an http.Server's ConnContext.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// proven takes the connection of a request out of the strangers.
func proven(ctx context.Context) {
	if c, ok := ctx.Value(guestKey{}).(*guest); ok {
		c.gate.leave(c)
	}
}
