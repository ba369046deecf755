package tcp

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gorun/gorun/ring/internal/secure"
)

// tick bounds one wait for another rank. After each, the network to it is checked.
const tick = time.Second / 4

// link is the connections to one rank, by stripe.
type link struct {
	rank  int
	conns []conn
	noted uint64 // the flow during which a note was last sent: see doubt.go
}

// newLink makes a link of conns. On error it closes them.
func newLink(rank int, conns []*secure.Conn) (*link, error) {
	l := &link{rank: rank}
	var failed error
	for _, c := range conns {
		s, err := newSocket(c)
		l.conns = append(l.conns, s)
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		l.close()
		return nil, fmt.Errorf("setting up the connection: %w", failed)
	}
	return l, nil
}

// wake ends all waits for this link for good.
func (l *link) wake() {
	for _, c := range l.conns {
		c.Wake()
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
