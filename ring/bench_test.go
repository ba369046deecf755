package ring_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// reducer returns one allreduce of so many bytes by all comms, which works on the same memory each
// time.
func reducer(comms []*ring.Comm, bytes int) func(rounds int) error {
	vectors := make([][]float32, len(comms))
	for rank := range vectors {
		vectors[rank] = make([]float32, bytes/4)
	}
	return func(rounds int) error {
		return ringtest.Each(len(comms), func(rank int) error {
			for range rounds {
				if err := ring.AllReduce(ctx, comms[rank], vectors[rank], ring.Sum); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// timed is how long one of so many rounds took.
func timed(b *testing.B, rounds int, do func(rounds int) error) time.Duration {
	begun := time.Now()
	must.OK(b, do(rounds))
	return time.Since(begun) / time.Duration(rounds)
}

// roundsIn is how many rounds fit into a time.
func roundsIn(b *testing.B, limit time.Duration, do func(rounds int) error) int {
	timed(b, 3, do)
	return max(1, int(limit/timed(b, 3, do)))
}

// inTurns lets contestants run one after the other, so that they meet the same noise. It reports
// the median round of each, and how many percent longer than the first one's it is.
func inTurns(b *testing.B, names []string, contestants []func() time.Duration) {
	took := make([][]time.Duration, len(contestants))
	for b.Loop() {
		for i, run := range contestants {
			took[i] = append(took[i], run())
		}
	}
	for i, t := range took {
		slices.Sort(t)
		b.ReportMetric(float64(t[len(t)/2].Nanoseconds())/1e3, names[i]+"-µs")
		if i > 0 {
			b.ReportMetric(100*(float64(t[len(t)/2])/float64(took[0][len(t)/2])-1), names[i]+"-costs-%")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkGuards compares allreduces of two ranks over TCP whose data travels as it is, checked,
// and encrypted.
func BenchmarkGuards(b *testing.B) {
	for _, bytes := range []int{8, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dB", bytes), func(b *testing.B) {
			var contestants []func() time.Duration
			for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
				g := pairOf(more)
				reduce := reducer(g.join(b, g.job(b)), bytes)
				rounds := roundsIn(b, time.Second/4, reduce)
				contestants = append(contestants, func() time.Duration { return timed(b, rounds, reduce) })
			}
			inTurns(b, []string{"plain", "checked", "encrypted"}, contestants)
		})
	}
}
