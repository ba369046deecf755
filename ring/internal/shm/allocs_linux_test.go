package shm

import (
	"fmt"
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

// allocs makes each call often and tells of those that allocate.
func (c *rankProcess) allocs([]string) string {
	const count = 1000
	var bad []string
	for _, bytes := range []int{4, 4000, 30_000, 600_000} {
		all := calls(c.g, bytes)
		for _, name := range sorted(all) {
			call := all[name]
			for range 10 {
				if err := call(); err != nil {
					return err.Error()
				}
			}
			n := count
			if bytes > 100_000 {
				n = count / 10
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				if err := call(); err != nil {
					return err.Error()
				}
			}
			runtime.ReadMemStats(&after)
			// The runtime allocates a little itself, now and then.
			if got := after.Mallocs - before.Mallocs; got > 20 {
				bad = append(bad, fmt.Sprintf("%d of %s of %d bytes: %d allocations", n, name, bytes, got))
			}
		}
	}
	return strings.Join(bad, "; ")
}

func sorted(calls map[string]func() error) []string {
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestNoAllocationsAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	f := family{t: t}
	f.start(3, "allocs")
	for rank, s := range f.results() {
		if s.Result != "" {
			t.Errorf("rank %d: %s", rank, s.Result)
		}
	}
	f.finish()
}

func TestNoAllocations(t *testing.T) {
	const runs = 20
	each(t, 3, func(g *Group) {
		for _, bytes := range []int{4, 4000, 30_000, 600_000} {
			all := calls(g, bytes)
			names := sorted(all)
			for _, name := range names {
				// What is counted is of all ranks: none may be elsewhere.
				if err := g.Barrier(1); err != nil {
					t.Error(err)
				}
				call := func() {
					if err := all[name](); err != nil {
						t.Error(err)
					}
				}
				if g.rank > 0 {
					for range runs + 1 {
						call()
					}
				} else if a := testing.AllocsPerRun(runs, call); a > 0 {
					t.Errorf("%s of %d bytes: %v allocations", name, bytes, a)
				}
				if err := g.Barrier(2); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
