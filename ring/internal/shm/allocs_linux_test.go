package shm

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/ring/internal/kernel"
)

const (
	f32   = kernel.F32
	add32 = kernel.Sum
)

// allocs makes each call in rounds and reports those that allocate in every round: the
// runtime itself allocates now and then.
func (c *rankProcess) allocs([]string) string {
	const rounds = 3
	const count = 5
	var bad []string
	for _, bytes := range []int{4, 4000, 30_000, 600_000} {
		all := calls(c.g, bytes)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			least := uint64(math.MaxUint64)
			for range rounds {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range count {
					if err := all[name](); err != nil {
						return err.Error()
					}
				}
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			if least > 0 {
				bad = append(bad, fmt.Sprintf("%d of %s of %d bytes: %d allocations", count, name, bytes, least))
			}
		}
	}
	return strings.Join(bad, "; ")
}

func TestNoAllocations(t *testing.T) {
	f := family{t: t}
	f.start(3, "allocs")
	for rank, s := range f.results() {
		if s.Result != "" {
			t.Errorf("rank %d: %s", rank, s.Result)
		}
	}
	f.finish()
}
