package secure

import (
	"context"
	"io"
	"sync"
	"time"
)

// stagger is the delay before the next address is tried in parallel: RFC 8305, section 5.
const stagger = 250 * time.Millisecond

// Race tries n addresses in turn, each once the one before it has failed or [stagger] has passed,
// until one of them succeeds or all have ended. A try that goes on after a failure calls failed, so
// that the next one begins. Race cancels the others' contexts when one has succeeded, closes what
// they bring all the same, and returns when all have ended. The index is -1, and errs has their
// errors, if none succeeds.
func Race[C io.Closer](ctx context.Context, n int,
	try func(ctx context.Context, i int, failed func()) (C, error)) (won C, index int, errs []error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var racing sync.WaitGroup
	var mu sync.Mutex
	index = -1
	errs = make([]error, n)
	turn := make(chan struct{})
	close(turn)
	for i := range n {
		mine := turn
		next := make(chan struct{})
		turn = next
		racing.Go(func() {
			pass := sync.OnceFunc(func() { close(next) })
			defer pass()
			if !await(ctx, mine) {
				return
			}
			timer := time.AfterFunc(stagger, pass)
			defer timer.Stop()
			got, err := try(ctx, i, pass)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs[i] = err
			case index >= 0:
				got.Close()
			default:
				won = got
				index = i
				cancel()
			}
		})
	}
	racing.Wait()
	return won, index, errs
}

// await reports whether turn closed before ctx ended.
func await(ctx context.Context, turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		return false
	}
}
