package secure

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// entrant is what a try brings.
type entrant struct {
	number int
	closed *atomic.Int32
}

func (e entrant) Close() error { e.closed.Add(1); return nil }

func TestRace(t *testing.T) {
	refused := errors.New("refused")
	var closed atomic.Int32
	// The first goes on after a failure, the second fails, the third wins, and the first brings
	// something too late.
	won, index, _ := Race(t.Context(), 4, func(ctx context.Context, i int, failed func()) (entrant, error) {
		switch i {
		case 0:
			failed()
			<-ctx.Done()
		case 1:
			return entrant{}, refused
		case 3:
			<-ctx.Done()
			return entrant{}, ctx.Err()
		}
		return entrant{i, &closed}, nil
	})
	check.That(t, index == 2 && won.number == 2 && closed.Load() == 1, "number %d won, %d closed", index, closed.Load())

	_, index, errs := Race(t.Context(), 2, func(_ context.Context, i int, _ func()) (entrant, error) {
		return entrant{}, refused
	})
	check.That(t, index == -1 && len(errs) == 2 && errors.Is(errs[0], refused) && errors.Is(errs[1], refused),
		"number %d, %v", index, errs)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, index, errs = Race(ended, 1, func(ctx context.Context, _ int, _ func()) (entrant, error) {
		return entrant{}, ctx.Err()
	}); index != -1 || len(errs) != 1 {
		t.Errorf("number %d, %v", index, errs)
	}
}
