// Package retry repeats an attempt until it succeeds, its schedule ends, or the context does.
package retry

import (
	"context"
	"time"
)

// Schedule returns the pause after failure n, counted from 0; more is false to abandon the attempt.
type Schedule func(n int, err error) (pause time.Duration, more bool)

// Backoff is a schedule without an end. Its pauses double, from first to longest.
func Backoff(first, longest time.Duration) Schedule {
	return func(n int, _ error) (time.Duration, bool) {
		pause := first
		for ; n > 0 && pause < longest; n-- {
			pause *= 2
		}
		return min(pause, longest), true
	}
}

// Do calls attempt until it succeeds, and pauses between the calls. The error is that of the last
// attempt; one that the end of ctx cut short counts only if it was the first.
func Do[T any](ctx context.Context, next Schedule, attempt func(context.Context) (T, error)) (T, error) {
	var none T
	var last error
	for n := 0; ; n++ {
		got, err := attempt(ctx)
		if err == nil {
			return got, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		pause, more := next(n, err)
		if !more || !Wait(ctx, pause) {
			return none, last
		}
	}
}

// Wait reports whether the pause passed before ctx ended.
func Wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
