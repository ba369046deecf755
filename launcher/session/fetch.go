package session

import (
	"context"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
)

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
