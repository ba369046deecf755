package ring_test

import (
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

func TestSixtyFourRanks(t *testing.T) {
	must.HaveTime(t)
	for _, transport := range []string{"tcp", "shm"} {
		t.Run(transport, func(t *testing.T) {
			l := over(transport, 64)
			comms := l.join(t, l.job(t))
			f := specOf("allreduce")
			for _, n := range []int{1, 5000, 100_000} {
				err := ringtest.Each(64, func(rank int) error {
					return f.once(comms[rank], position{n: n}, synchronously)
				})
				must.OK(t, err, n, "elements")
			}
		})
	}
}
