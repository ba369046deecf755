package engine

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
)

func TestOverheadOfARankThatSharesItsProcessor(t *testing.T) {
	const us = 1e6 // in ps
	for what, c := range map[string]struct {
		measured Sample
		trip     time.Duration
		want     int64
	}{
		"ranks of one host":        {Sample{Alpha: 100 * us, Overhead: 10 * us}, 20 * time.Microsecond, 90 * us},
		"hosts far apart":          {Sample{Alpha: 5100 * us, Overhead: 10 * us}, 10 * time.Millisecond, 100 * us},
		"a trip that grew since":   {Sample{Alpha: 5000 * us, Overhead: 10 * us}, 12 * time.Millisecond, 10 * us},
		"a trip that nobody knows": {Sample{Alpha: 100 * us, Overhead: 10 * us}, 0, 100 * us},
	} {
		check.Equal(t, busy(c.measured, c.trip), c.want, what)
	}
}

// Hosts far apart whose ranks share a processor pick what others pick: the latency is not time for
// which processors are busy.
func TestCrowdedRanksFarApartPickTheSame(t *testing.T) {
	const ms = 1e9
	const domains = 16
	const bytes = 8 << 20
	pick := func(overhead int64) algorithms.Algorithm {
		c := algorithms.Cost{
			Alpha:    5 * ms,
			Overhead: overhead,
			Beta:     160_000,
			Gamma:    50,
		}.Clamp()
		return c.Pick(collective.AllReduce, domains, bytes, 0)
	}
	crowded := busy(Sample{Alpha: 5 * ms, Overhead: 30e6}, 10*time.Millisecond)
	got := pick(crowded)
	want := pick(30e6)
	check.That(t, got == want && want == algorithms.Ring, "%v, alone %v", got, want)
	got = pick(5 * ms)
	check.That(t, got != algorithms.Ring, "%v whatever the overhead is", got)
}
