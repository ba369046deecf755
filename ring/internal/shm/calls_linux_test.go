package shm

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// calls returns the calls on a vector of so many bytes, by name.
func calls(g *Group, bytes int) map[string]func() error {
	n := bytes / 4
	v := make([]float32, max(1, n))
	w := make([]float32, max(1, n))
	per := n / g.size
	regions := make([]Region, g.size)
	for q := range regions {
		regions[q] = Region{4 * q * per, 4 * per}
	}
	regions[g.size-1].Len = 4 * (n - (g.size-1)*per)
	mine := unsafe.Pointer(&v[min(regions[g.rank].Off/4, n-1)])
	next := (g.rank + 1) % g.size
	last := (g.rank + g.size - 1) % g.size
	return map[string]func() error{
		"allreduce": func() error { return g.AllReduce(1, kernel.F32, kernel.Max, pointer(v), pointer(v), n, 1) },
		"reduce-scatter": func() error {
			return g.ReduceScatter(2, kernel.F32, kernel.Max, mine, pointer(v), regions, 1)
		},
		"all-gather": func() error { return g.AllGatherV(3, pointer(v), mine, regions) },
		"broadcast":  func() error { return g.Broadcast(4, pointer(v), bytes, 0) },
		"swap":       func() error { return g.Swap(5, next, pointer(v), bytes, last, pointer(w), bytes) },
		"reduce":     func() error { return g.Reduce(6, kernel.F32, kernel.Max, pointer(v), pointer(v), n, 1, 0) },
		"barrier":    func() error { return g.Barrier(7) },
	}
}
