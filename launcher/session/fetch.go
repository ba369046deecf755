package session

import (
	"context"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/net/wire"
)

// Fetch brings files of the host into a folder, which open makes if there are any. If ctx ends
// first, so does the session.
func (s *Session) Fetch(ctx context.Context, ask wire.Fetch, open func() (fetch.Folder, error),
	meter fetch.Meter) (got fetch.Got, err error) {
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
