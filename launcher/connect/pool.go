package connect

import (
	"slices"
	"sync"

	"github.com/gorun/gorun/launcher/session"
)

// SessionsPerConnection is below the limit that sshd has (MaxSessions), 10.
const SessionsPerConnection = 8

// Pool holds the connections to one host, which sessions share. It is safe for concurrent use.
type Pool struct {
	Over func(session.Host) // called with each connection that no session uses any more; nil: nobody wants to know

	mu      sync.Mutex // held while connecting, so that other calls share the new connection
	conns   []*Conn
	reached bool // whether a connection was ever made
}

// Conn is a connection of a [Pool].
type Conn struct {
	session.Host
	sessions int
	cut      bool
}

// Take returns a connection with room for a session, or else dials one. The caller releases it.
func (p *Pool) Take(dial func() (session.Host, error)) (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.sessions < SessionsPerConnection {
			c.sessions++
			return c, nil
		}
	}
	host, err := dial()
	if err != nil {
		return nil, err
	}
	c := &Conn{Host: host, sessions: 1}
	p.conns = append(p.conns, c)
	p.reached = true
	return c, nil
}

// Release ends a session's use of a connection. The last one closes it.
func (p *Pool) Release(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.sessions--; c.sessions > 0 {
		return
	}
	if !c.cut {
		p.conns = slices.DeleteFunc(p.conns, func(other *Conn) bool { return other == c })
		_ = c.Close()
	}
	if p.Over != nil {
		p.Over(c.Host)
	}
}

// Cut closes all connections, which ends their agents, and reports whether the host was ever
// reached. Later sessions get new connections. Only closing waits for the connections, because
// their sessions' readers may wait for the caller.
func (p *Pool) Cut(closing *sync.WaitGroup) (reached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.cut = true
		closing.Go(func() { _ = c.Close() })
	}
	p.conns = nil
	return p.reached
}
