package ringtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring"
)

// Join starts all ranks of the job, as goroutines, and returns their Comms by
// rank. They are closed when the test ends.
func (j *Job) Join(tb testing.TB, opts ...ring.Option) []*ring.Comm {
	tb.Helper()
	comms := make([]*ring.Comm, j.Size)
	err := Each(j.Size, func(rank int) error {
		environ := append([]ring.Option{ring.WithEnviron(Lookup(j.Environ(rank)))}, opts...)
		c, err := ring.Init(context.Background(), environ...)
		comms[rank] = c
		return err
	})
	tb.Cleanup(func() {
		for _, c := range comms {
			if c != nil {
				c.Close()
			}
		}
	})
	must.OK(tb, err, "join")
	return comms
}

// Each calls f for every rank at once, waits, and returns all errors.
func Each(size int, f func(rank int) error) error {
	errs := make([]error, size)
	var running sync.WaitGroup
	for rank := range size {
		running.Go(func() {
			if err := f(rank); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// All calls f for every rank at once, waits, and ends the test if one fails.
func All(tb testing.TB, size int, f func(rank int) error) {
	tb.Helper()
	must.OK(tb, Each(size, f))
}
