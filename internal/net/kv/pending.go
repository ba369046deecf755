package kv

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
)

// Bounds on connections whose token is not known yet. Those of the job's own user are counted
// apart, so that another user of the host cannot keep them out. Beyond a bound the oldest is
// closed.
const (
	maxOwn     = 256
	maxOthers  = 16 // ranks in containers may be other users
	maxPerRank = 4  // additional connections for each rank: all ranks may connect at once
)

// listener accepts connections and bounds those that are pending: none of their requests has shown
// a token.
type listener struct {
	net.Listener
	own   func(net.Conn) bool // whether the peer is a process of the job's user, as far as the kernel knows
	ranks int

	mu      sync.Mutex
	pending map[bool][]*connection // connections by result of own, oldest first
}

// connection leaves the pending ones when a request shows a token, or when it is closed.
type connection struct {
	net.Conn
	from *listener
	own  bool
}

func newListener(l net.Listener, ranks int) *listener {
	return &listener{
		Listener: l,
		own:      ownUser,
		ranks:    ranks,
		pending:  map[bool][]*connection{},
	}
}

// ownUser reports whether this process's user, or root, has the other end of conn. If the kernel
// does not know, only the token counts.
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

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, from: l, own: l.own(conn)}
	if oldest := l.add(c); oldest != nil {
		_ = oldest.Conn.Close()
	}
	return c, nil
}

// add adds c to the pending connections, and returns the connection that must be closed for it, if
// any.
func (l *listener) add(c *connection) (oldest *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := maxOthers
	if c.own {
		most = maxOwn
	}
	most += maxPerRank * l.ranks
	queue := l.pending[c.own]
	if len(queue) >= most {
		oldest = queue[0]
		queue = queue[1:]
	}
	l.pending[c.own] = append(queue, c)
	return oldest
}

// remove ends c's time as a pending connection.
func (l *listener) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.pending[c.own], c); i >= 0 {
		l.pending[c.own] = slices.Delete(l.pending[c.own], i, i+1)
	}
}

func (c *connection) Close() error {
	c.from.remove(c)
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is an http.Server's ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// authenticated notes that a request has shown a token on its connection.
func authenticated(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.from.remove(c)
	}
}
