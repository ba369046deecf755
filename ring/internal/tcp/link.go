package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/secure"
)

// tick bounds one wait for another rank. After each, the network to it is checked.
const tick = time.Second / 4

// link is the connections to one rank, by stripe.
type link struct {
	rank  int
	conns []*secure.Conn
	noted uint64 // the flow during which a note was last sent: see doubt.go
}

// newLink makes a link of conns. On error it closes them.
func newLink(rank int, conns []*secure.Conn) (*link, error) {
	l := &link{rank, conns, 0}
	for _, c := range conns {
		if err := c.SetDeadline(time.Now().Add(tick)); err != nil {
			l.close()
			return nil, fmt.Errorf("setting up the connection: %w", err)
		}
	}
	return l, nil
}

// wake ends all waits for this link: those to receive, and by the deadline those to
// send. Received bytes can still be read, and the other rank notices nothing.
func (l *link) wake() {
	for _, c := range l.conns {
		_ = unix.Shutdown(c.FD, unix.SHUT_RD)
		_ = c.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (l *link) close() error {
	var first error
	for _, c := range l.conns {
		if err := c.Close(); err != nil && first == nil {
			first = fmt.Errorf("closing the link to rank %d: %w", l.rank, err)
		}
	}
	return first
}
