package bench

import (
	"errors"
	"slices"
	"strings"
	"unicode"
)

// Row is one line of a benchmark: one size, in place or not. gorun bench --json prints it. Times
// are µs of one call, bandwidths GB/s.
type Row struct {
	Collective string `json:"collective"`
	Ranks      int    `json:"ranks"`
	Bytes      int    `json:"bytes"`
	Count      int    `json:"count"` // elements of the whole vector
	Type       string `json:"type"`
	Op         string `json:"op"`   // operation of a reduction
	Root       int    `json:"root"` // root; -1: none
	InPlace    bool   `json:"in_place"`

	Time   float64 `json:"time_us"`    // average over all calls and ranks
	AlgBW  float64 `json:"algbw_gb_s"` // bandwidth from Time
	BusBW  float64 `json:"busbw_gb_s"` // bus bandwidth from Time
	Median float64 `json:"median_us"`  // median of the slowest rank, as for the other percentiles
	P99    float64 `json:"p99_us"`
	Max    float64 `json:"max_us"`

	Wrong      int    `json:"wrong"` // wrong elements over all ranks
	Iterations int    `json:"iterations"`
	Device     string `json:"device,omitempty"` // carrier of GPU memory

	// What one plain TCP connection did between calls: it carried as many bytes both ways at once.
	WireTime  float64 `json:"wire_us,omitempty"` // median of the slower end
	WireBW    float64 `json:"wire_gb_s,omitempty"`
	WireShare float64 `json:"busbw_of_wire,omitempty"` // ratio of Median's bus bandwidth to WireBW
}

const maxDevice = 64 // bytes of the name of what carries GPU memory

// Check reports a row with names that no benchmark has. They go into tables and plots, which grow
// with the number and the length of different ones.
func (r *Row) Check() error {
	strange := func(c rune) bool { return !unicode.IsPrint(c) }
	_, known := find(r.Collective)
	switch {
	case !known, r.Type != "" && !slices.Contains(Types(), r.Type), r.Op != "" && !slices.Contains(Ops(), r.Op):
		return errors.New("its names are not those of a benchmark")
	case len(r.Device) > maxDevice || strings.ContainsFunc(r.Device, strange):
		return errors.New("its device has no plain short name")
	}
	return nil
}

// bandwidths sets what follows from the times. Factor leads from algbw to busbw.
func (r *Row) bandwidths(factor float64) {
	speed := func(us float64) float64 { return float64(r.Bytes) / us / 1e3 }
	r.AlgBW = speed(r.Time)
	r.BusBW = r.AlgBW * factor
	if r.WireTime > 0 {
		r.WireBW = speed(r.WireTime)
		r.WireShare = speed(r.Median) * factor / r.WireBW
	}
}

// percentiles returns the median, the 99th percentile and the maximum of samples, which it sorts.
func percentiles(samples []float64) []float64 {
	slices.Sort(samples)
	n := len(samples)
	return []float64{samples[n/2], samples[n*99/100], samples[n-1]}
}
