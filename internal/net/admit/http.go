package admit

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

const (
	headerTime = 5 * time.Second
	headerSize = 8 << 10
)

// NewServer returns a server of HTTP whose requests are bounded in the size and time of their
// headers, and which logs nothing: what strangers send is not the user's concern.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      handler,
		ReadHeaderTimeout:            headerTime,
		MaxHeaderBytes:               headerSize,
		DisableGeneralOptionsHandler: true, // it answers before the handler has seen the request
		ErrorLog:                     log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, conn)
		},
	}
}

// Listener returns a listener for a server of [NewServer]. Its connections are pending until a
// request on them is [Authenticated], or they are closed.
func (p *Pending) Listener(l net.Listener) net.Listener { return listener{l, p} }

// Authenticated records that a request of a server may be answered, so that its connection is not
// pending any more.
func Authenticated(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.from.Remove(c)
	}
}

// IsRequestOfTheUser is [IsTheUsers] of the connection of a request of a server of [NewServer].
func IsRequestOfTheUser(ctx context.Context) bool {
	conn, ok := ctx.Value(connectionKey{}).(net.Conn)
	return ok && IsTheUsers(conn)
}

type connectionKey struct{}

type listener struct {
	net.Listener
	pending *Pending
}

// connection leaves the pending ones when it is closed.
type connection struct {
	net.Conn
	from *Pending
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{conn, l.pending}
	if !l.pending.add(c) {
		conn.Close()
	}
	return c, nil
}

func (c *connection) Close() error {
	c.from.Remove(c)
	return c.Conn.Close()
}

// inner returns the connection below one of a listener, which can be closed while the pending ones
// are locked.
func inner(conn net.Conn) net.Conn {
	if c, is := conn.(*connection); is {
		return c.Conn
	}
	return conn
}
