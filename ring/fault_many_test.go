package ring_test

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
)

func TestEightRanksOnFewCores(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, base := range layouts() {
		l := base.of(8)
		t.Run(base.name, func(t *testing.T) {
			t.Parallel()
			comms := l.join(t, l.job(t))
			for _, n := range []int{1, 1000, 40_000} {
				for root, f := range specs() {
					if !sampled(root + n) {
						continue
					}
					for _, do := range []caller{synchronously, asynchronously} {
						err := ringtest.Each(8, func(rank int) error {
							return f.once(comms[rank], position{n: n, root: root % 8}, do)
						})
						if err != nil {
							t.Fatalf("%s of %d: %v", f.name, n, err)
						}
					}
				}
			}
		})
	}
}

func TestSixtyFourRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, transport := range []string{"tcp", "shm"} {
		t.Run(transport, func(t *testing.T) {
			l := layout{
				name:      transport,
				transport: transport,
				size:      64,
				streams:   1,
			}
			comms := l.join(t, l.job(t))
			f, err := specOf("allreduce")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 5000, 100_000} {
				err := ringtest.Each(64, func(rank int) error {
					return f.once(comms[rank], position{n: n}, synchronously)
				})
				if err != nil {
					t.Fatalf("%d elements: %v", n, err)
				}
			}
		})
	}
}

// BenchmarkManyRanks reports the time of one allreduce when all ranks share this
// machine: how far there may be more of them than cores.
func BenchmarkManyRanks(b *testing.B) {
	for _, transport := range []string{"tcp", "shm"} {
		for _, size := range []int{2, 4, 8, 16, 32, 64} {
			for _, bytes := range []int{8, 64 << 10, 1 << 20} {
				b.Run(fmt.Sprintf("%s/ranks=%d/bytes=%d", transport, size, bytes), func(b *testing.B) {
					l := layout{
						name:      transport,
						transport: transport,
						size:      size,
						streams:   1,
					}
					comms := l.join(b, l.job(b))
					timeAllReduce(b, comms, bytes)
				})
			}
		}
	}
}
