package shm

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
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

// time is "CALL BYTES": the median time of a call in nanoseconds.
func (c *rankProcess) time(args []string) string {
	bytes, _ := strconv.Atoi(args[1])
	call := calls(c.g, bytes)[args[0]]
	count := max(10, min(2000, (256<<20)/max(1, bytes)/c.g.size))
	times := make([]int, 0, 20)
	for round := range cap(times) {
		begun := time.Now()
		for range max(1, count/cap(times)) {
			if err := call(); err != nil {
				return err.Error()
			}
		}
		if round > 1 {
			times = append(times, int(time.Since(begun).Nanoseconds())/max(1, count/cap(times)))
		}
	}
	slices.Sort(times)
	return strconv.Itoa(times[len(times)/2])
}

// BenchmarkProcesses times calls between processes.
func BenchmarkProcesses(b *testing.B) {
	for _, call := range []string{"allreduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "swap"} {
		for _, ranks := range []int{2, 4, 8} {
			for _, bytes := range []int{4, 4 << 10, 64 << 10, 1 << 20, 16 << 20} {
				b.Run(fmt.Sprintf("%s/ranks=%d/bytes=%d", call, ranks, bytes), func(b *testing.B) {
					var times []int
					for range b.N {
						f := family{t: b}
						f.start(ranks, fmt.Sprintf("time %s %d", call, bytes))
						for _, s := range f.results() {
							ns, err := strconv.Atoi(s.Result)
							if err != nil {
								b.Fatal(s.Result)
							}
							times = append(times, ns)
						}
						f.finish()
					}
					slices.Sort(times)
					b.ReportMetric(float64(times[len(times)/2]), "ns/call")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
