package doctor

import (
	"fmt"
	"math"
	"slices"

	"github.com/gorun/gorun/internal/prose"
)

// median returns the middle of values: at p 0.5 the lower one of two. It is 0 without values.
func median(values []float64) float64 { return middle(values, false) }

// middle returns the middle of values, of two the upper one if upper is set.
func middle(values []float64, upper bool) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if upper {
		return sorted[len(sorted)/2]
	}
	return sorted[(len(sorted)-1)/2]
}

// lowerQuarter is the value that a quarter of values are below, or 0 without values.
func lowerQuarter(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/4]
}

// spread is an estimate of the standard deviation that outliers do not change: 1.4826 times the
// median absolute deviation.
func spread(values []float64) float64 {
	center := median(values)
	var off []float64
	for _, v := range values {
		off = append(off, math.Abs(v-center))
	}
	return 1.4826 * median(off)
}

// compared is the distance of a value from those of the others.
type compared struct {
	usual float64 // median of the others
	times float64 // ratio of the value to usual
	sigma float64 // distance in the others' standard deviations; +Inf becomes 99
}

// crowd sums up many values. For rates, wide is the spread of their logarithms.
type crowd struct{ usual, wide float64 }

func among(values []float64) crowd { return crowd{median(values), spread(values)} }

func amongRates(values []float64) crowd { return crowd{median(values), spread(logarithms(values))} }

// compare compares the value of one with those of the others. ok is false without others.
func compare(value float64, others []float64) (c compared, ok bool) {
	return among(others).compare(value)
}

func (all crowd) compare(value float64) (c compared, ok bool) {
	if c.usual = all.usual; c.usual <= 0 {
		return c, false
	}
	c.times = value / c.usual
	// Where the others agree to the last digit, one part in a hundred counts as their spread.
	c.sigma = min(math.Abs(value-c.usual)/max(all.wide, c.usual/100), 99)
	return c, true
}

// compareRates is compare for values that differ by factors: its deviations are those of
// logarithms, since a rate that varies by half is never many deviations from zero. more are rates
// that vary as these do, and count where they spread wider: few hosts may agree by chance.
func compareRates(value float64, others []float64, more ...[]float64) (c compared, ok bool) {
	all := amongRates(others)
	for _, values := range more {
		all.wide = max(all.wide, spread(logarithms(values)))
	}
	return all.compareRate(value)
}

func (all crowd) compareRate(value float64) (c compared, ok bool) {
	if c.usual = all.usual; c.usual <= 0 || value <= 0 {
		return c, false
	}
	c.times = value / c.usual
	c.sigma = min(math.Abs(math.Log(c.times))/max(all.wide, 0.01), 99)
	return c, true
}

// logarithms are those of the positive values.
func logarithms(values []float64) (logs []float64) {
	for _, v := range values {
		if v > 0 {
			logs = append(logs, math.Log(v))
		}
	}
	return logs
}

func size(n int64) string {
	if n >= mib {
		return prose.Size(n)
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/1024)
}

func rate(perSecond float64) string {
	if perSecond >= 1e9 {
		return fmt.Sprintf("%.3g GB/s", perSecond/1e9)
	}
	return fmt.Sprintf("%.3g MB/s", perSecond/1e6)
}

func flops(perSecond float64) string { return fmt.Sprintf("%.3g Gflop/s", perSecond/1e9) }

// Seconds formats a time.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}
