package chart

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

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

// Bytes formats a size.
func Bytes(v float64) string {
	return scaled(v, unit{1 << 30, "GiB"}, unit{1 << 20, "MiB"}, unit{1 << 10, "KiB"}, unit{1, "B"})
}

// Micros formats a time in µs.
func Micros(us float64) string { return scaled(us, unit{1e6, "s"}, unit{1e3, "ms"}, unit{1, "µs"}) }

// Bandwidth formats a bandwidth in GB/s.
func Bandwidth(gbs float64) string {
	return scaled(gbs, unit{1, "GB/s"}, unit{1e-3, "MB/s"}, unit{1e-6, "kB/s"})
}

type unit struct {
	size float64
	name string
}

// scaled formats v in the first of units that is no larger, or in the last. The largest is first.
func scaled(v float64, units ...unit) string {
	for _, u := range units[:len(units)-1] {
		if v >= u.size {
			return fmt.Sprintf("%.4g %s", v/u.size, u.name)
		}
	}
	last := units[len(units)-1]
	return fmt.Sprintf("%.4g %s", v/last.size, last.name)
}
