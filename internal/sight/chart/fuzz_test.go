package chart

import (
	"math"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// Axes have few ticks, whatever the values are that a record or a host has named.
func FuzzAxis(f *testing.F) {
	f.Add(0.0, 1.0)
	f.Add(1e17, 1e17+16)
	f.Add(1e300, 1e300)
	f.Add(-math.MaxFloat64, math.MaxFloat64)
	f.Add(math.SmallestNonzeroFloat64, math.MaxFloat64)
	f.Fuzz(func(t *testing.T, a, b float64) {
		for _, scale := range []Scale{Linear, Logarithmic, Time} {
			s := (Axis{Scale: scale}).over([]float64{a, b})
			check.That(t, len(s.ticks) <= maxPowers+3, "%g and %g have %d ticks on scale %d", a, b, len(s.ticks), scale)
			for _, tick := range s.ticks {
				check.That(t, s.shows(tick), "%g and %g have a tick at %g", a, b, tick)
			}
		}
	})
}
