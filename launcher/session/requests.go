package session

import (
	"context"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// Get answers the session's request when the key is in the store or the wait is over, or ctx ends
// with the job.
func (s *Session) Get(ctx context.Context, store *kv.Store, g wire.Get) error {
	if err := checkGet(g); err != nil {
		return err
	}
	if s.gets.Add(1) > maxGets {
		return &wire.FormatError{Reason: "too many requests wait for keys"}
	}
	go func() { // ends with the wait, or the job
		defer s.gets.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, g.Wait)
		defer cancel()
		value, found := store.Get(ctx, g.Key)
		s.Out.answer(wire.Value{ID: g.ID, Found: found, Value: value})
	}()
	return nil
}
