//go:build !race

package ring_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// One vector is longer than a 32-bit number can count bytes. Under the race detector
// this would take minutes, so it is left out there.
// It is row R7 of the fault matrix.
func TestVectorOfMoreThanTwoGigabytes(t *testing.T) {
	must.HaveTime(t)
	const n = 2_200_000_001
	if available(t) < 4*n {
		lab.Skip(t, "needs 9 GB of memory")
	}
	vectors := make([][]int8, 2)
	for rank := range vectors {
		vectors[rank] = make([]int8, n)
	}
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			d := ringtest.NewJob(t, 2)
			d.Transport = transport
			comms := d.Join(t)
			places := []int{0, 1, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1<<31 + 1, n - 1}
			ringtest.All(t, 2, func(rank int) error {
				v := vectors[rank]
				clear(v)
				for k, i := range places {
					v[i] = int8((rank + 1) * (k + 1))
				}
				if err := ring.AllReduce(ctx, comms[rank], v, ring.Sum); err != nil {
					return err
				}
				next := 0
				for i, got := range v {
					want := int8(0)
					if next < len(places) && i == places[next] {
						next++
						want = int8(3 * next)
					}
					if got != want {
						return fmt.Errorf("element %d is %d, want %d", i, got, want)
					}
				}
				return nil
			})
		})
	}
}

// available is the memory in bytes that programs can still get.
func available(t *testing.T) int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		lab.Skip(t, "no /proc here")
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kilobytes := 0
	must.Get(fmt.Sscan(rest, &kilobytes))(t)
	return kilobytes << 10
}
