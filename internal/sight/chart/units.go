package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Unit has the names of a quantity's sizes, the largest first.
type Unit []Step

// Step is one size of a Unit.
type Step struct {
	Size float64
	Name string
}

// In returns a unit of one size, or of none if name is empty.
func In(name string) Unit { return Unit{{1, name}} }

// Bytes is the unit of sizes; of rates if suffix is "/s".
func Bytes(suffix string) Unit {
	return Unit{{1 << 40, "TiB" + suffix}, {1 << 30, "GiB" + suffix}, {1 << 20, "MiB" + suffix},
		{1 << 10, "KiB" + suffix}, {1, "B" + suffix}}
}

// Durations is the unit of times in seconds.
func Durations() Unit { return Unit{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}} }

// Bandwidth is the unit of bandwidths in bytes per second.
func Bandwidth() Unit { return Unit{{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}} }

// Format formats v in the first size that is no larger than it, or in the last.
func (u Unit) Format(v float64) string {
	s := u.Step(v)
	if math.IsNaN(v) || s.Name == "" {
		return Number(v)
	}
	if len(u) == 1 {
		return Number(v) + " " + s.Name
	}
	return fmt.Sprintf("%.4g %s", v/s.Size, s.Name)
}

// tick is Format without the name of the only size, which the axis has.
func (u Unit) tick(v float64) string {
	if len(u) <= 1 {
		return Number(v)
	}
	return u.Format(v)
}

// Step returns the size in which v is formatted.
func (u Unit) Step(v float64) Step {
	for _, s := range u {
		if v >= s.Size {
			return s
		}
	}
	if len(u) == 0 {
		return Step{Size: 1}
	}
	return u[len(u)-1]
}

// Number formats a number with about three digits.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Seconds formats a time of a run.
func Seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// clock is Seconds without what is 0 at its end: 1h20m.
func clock(s float64) string {
	text := Seconds(s)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
