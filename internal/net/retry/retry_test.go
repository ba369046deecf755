package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

var errRefused = errors.New("refused")

func TestDoEndsWithSuccessScheduleOrContext(t *testing.T) {
	doubling := Backoff(time.Second, 3*time.Second)
	for _, tc := range []struct {
		name  string
		next  Schedule
		limit time.Duration
		until int // attempt that succeeds, counted from 0
		took  time.Duration
		err   error
	}{
		{"at once", doubling, time.Hour, 0, 0, nil},
		{"after pauses that grow to the longest", doubling, time.Hour, 4, (1 + 2 + 3 + 3) * time.Second, nil},
		{"the schedule ends", func(n int, _ error) (time.Duration, bool) { return time.Second, n < 2 },
			time.Hour, 9, 2 * time.Second, errRefused},
		{"the context ends in a pause", doubling, 2 * time.Second, 9, 2 * time.Second, errRefused},
		{"the context has ended", doubling, 0, 9, 0, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			began := time.Now()
			tries := 0
			_, err := Do(ctx, tc.next, func(ctx context.Context) (int, error) {
				if tries++; tries > tc.until {
					return tries, nil
				}
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				return 0, errRefused
			})
			if took := time.Since(began); !errors.Is(err, tc.err) || took != tc.took {
				t.Errorf("%s: %v after %v, expected %v after %v", tc.name, err, took, tc.err, tc.took)
			}
		})
	}
}

func TestDoKeepsTheErrorBeforeTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err := Do(ctx, Backoff(0, 0), func(ctx context.Context) (int, error) {
		if tries++; tries == 1 {
			return 0, errRefused
		}
		cancel()
		return 0, ctx.Err()
	})
	check.That(t, err == errRefused, "%v, expected %v", err, errRefused)
}
