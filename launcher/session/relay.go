package session

import (
	"context"
	"net/netip"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

// TakeFile makes the host a member of a group that gets a file, and returns when all members have
// it. Others may reach the host at addrs. If ctx ends first, so does the session.
func (s *Session) TakeFile(ctx context.Context, g *relay.Group, addrs []netip.Addr) (d relay.Delivered, err error) {
	err = s.during(ctx, func() (err error) {
		d, err = g.Deliver(relayAgent{s}, addrs)
		return err
	})
	d.Path = Clean(d.Path)
	return d, err
}

// relayAgent is a session as a [relay.Host].
type relayAgent struct{ s *Session }

func (a relayAgent) Name() string { return a.s.Host.Name }

func (a relayAgent) Send(t wire.Type, message any) { a.s.Out.SendMessage(t, message) }

func (a relayAgent) Piece(data []byte) error { return a.s.Out.sendPiece(wire.TypePiece, data) }

func (a relayAgent) Next() (wire.Frame, error) { return a.s.answer() }
func (a relayAgent) Cancel()                   { a.s.Cancel() }

// Fetch brings files of the host into a folder, which open makes if there are any. If ctx ends
// first, so does the session.
func (s *Session) Fetch(ctx context.Context, ask wire.Fetch, open fetch.Open,
	meter relay.Meter) (got fetch.Got, err error) {
	err = s.during(ctx, func() (err error) {
		got, err = fetch.Receive(relayAgent{s}, ask, open, meter)
		return err
	})
	for _, texts := range [][]string{got.Notes, got.Missing} {
		for i := range texts {
			texts[i] = Clean(texts[i])
		}
	}
	return got, err
}

// Meter hears of bytes that are to come, and of those that have come; NoMeter hears of nothing.
type (
	Meter   = relay.Meter
	NoMeter = relay.NoMeter
)
