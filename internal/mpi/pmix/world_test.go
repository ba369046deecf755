package pmix

import (
	"testing"
	"testing/synctest"

	"github.com/gorun/gorun/internal/test/check"
)

// Another host may ask for ranks of a world that the helper has not been told of yet, and a helper
// that hears of a world which it does not know ends.
func TestWorldsAreAwaitedUntilTheHelperKnowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{ctx: t.Context(), grown: make(chan struct{})}
		s.places = map[int]place{1: {numbers: []int{4}, hostOf: []int{3}}}
		at := make(chan int, 1)
		go func() { at <- s.where(1, 0) }()
		synctest.Wait()
		check.Equal(t, len(at), 0, "answers before")
		s.mu.Lock()
		s.places[1] = place{numbers: []int{4}, hostOf: []int{3}, told: true}
		close(s.grown)
		s.mu.Unlock()
		check.Equal(t, <-at, 3, "host")
		check.Equal(t, s.where(1, 1), -1, "a rank that is not there")
	})
}
