package tcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/ring/internal/rails"
)

// tick bounds one wait for another rank. After each, the network to it is checked.
const tick = time.Second / 4

// link is the connections to one rank, by stripe.
type link struct {
	rank  int
	conns []conn
	noted uint64 // the flow during which a note was last sent: see calls.go
}

// newLink makes a link of conns. On error it closes them.
func (n *Net) newLink(rank int, conns []*secure.Conn) (*link, error) {
	l := &link{rank: rank}
	var failed error
	for stripe, c := range conns {
		s, err := n.newConn(rank, stripe, c)
		l.conns = append(l.conns, s)
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		l.close()
		return nil, fmt.Errorf("setting up the connection: %w", failed)
	}
	return l, nil
}

// newConn makes a stripe of its first connection. Ranks that several rails join send over all of
// them.
func (n *Net) newConn(rank, stripe int, first *secure.Conn) (conn, error) {
	pairs := n.pairs[rank]
	if len(pairs) == 0 {
		return socket{first}, nil
	}
	cfg := rails.Config{Rails: len(pairs), First: -1}
	if rank > n.rank {
		cfg.First = slices.IndexFunc(pairs, func(p rails.Pairing) bool { return p.Theirs.Addr == first.Remote() })
		cfg.Dial = func(ctx context.Context, rail int) (*secure.Conn, error) {
			return n.endpoint.DialLane(ctx, rank, stripe, 1+rail, pairs[rail].Mine.Addr.Addr(), pairs[rail].Theirs.Addr)
		}
	}
	s, err := rails.New(first, cfg)
	if err != nil {
		return socket{first}, err // the caller closes it
	}
	return s, nil
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
