package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/sight/watch"
)

// column is a column of a table whose rows are of type R.
type column[R any] struct {
	name  string
	width int // right-aligned; negative: left-aligned, and wider where there is room
	text  func(R) string
	order func(a, b R) int // the row that users look for comes first
}

func most[R any](value func(R) float64) func(a, b R) int {
	return func(a, b R) int { return cmp.Compare(value(b), value(a)) }
}

// least returns the column with its order reversed.
func least[R any](c column[R]) column[R] {
	order := c.order
	c.order = func(a, b R) int { return order(b, a) }
	return c
}

// rankColumns returns the columns that have a value for some rank and fit into a width.
func rankColumns(ranks []watch.Rank, width int) []column[watch.Rank] {
	ring := false
	gpus := false
	for _, r := range ranks {
		ring = ring || r.Ring != nil
		gpus = gpus || r.GPUMemory != nil || r.GPUBusy != nil
	}
	columns := allRankColumns()
	without := func(name string) {
		columns = slices.DeleteFunc(columns, func(c column[watch.Rank]) bool { return c.name == name })
	}
	for _, name := range []string{"ring/s", "ring%"} {
		if !ring {
			without(name)
		}
	}
	for _, name := range []string{"gpu%", "gmem"} {
		if !gpus && ring { // a table without ring has room for them
			without(name)
		}
	}
	for _, name := range []string{"thr", "write/s"} {
		if need(columns) > width && width >= leastWidth {
			without(name)
		}
	}
	return columns
}

// leastWidth is the smallest width of a terminal on which no row is cut.
const leastWidth = 80

// need returns the smallest width of a row.
func need[R any](columns []column[R]) int {
	n := len(columns) - 1
	for _, c := range columns {
		n += max(c.width, -c.width)
	}
	return n
}

func allRankColumns() []column[watch.Rank] {
	type R = watch.Rank
	number := func(name string, width int, text func(float64) string, value func(R) float64) column[R] {
		return column[R]{name, width, func(r R) string {
			if v := value(r); !math.IsInf(v, -1) && r.Exit == nil && r.State != watch.Waiting {
				return text(v)
			}
			return "-"
		}, most(value)}
	}
	return []column[R]{
		{"rank", 5, func(r R) string { return strconv.Itoa(r.Rank) }, func(a, b R) int {
			return cmp.Compare(a.Rank, b.Rank)
		}},
		{"host", -9, func(r R) string { return r.Host }, func(a, b R) int { return cmp.Compare(a.Host, b.Host) }},
		{"state", -8, stateText, func(a, b R) int { return cmp.Compare(stateText(a), stateText(b)) }},
		number("cpu", 5, cores, func(r R) float64 { return r.CPU }),
		number("mem", 5, short, func(r R) float64 { return float64(r.Memory) }),
		number("thr", 5, short, func(r R) float64 { return float64(r.Threads) }),
		number("read/s", 6, short, func(r R) float64 { return r.Read }),
		number("write/s", 7, short, func(r R) float64 { return r.Written }),
		number("lines/s", 7, short, func(r R) float64 { return r.Lines }),
		number("ring/s", 6, short, func(r R) float64 {
			if r.Ring == nil {
				return math.Inf(-1)
			}
			return r.Ring.Bytes
		}),
		least(number("ring%", 6, short, func(r R) float64 { // a low value marks the rank that others wait for
			if r.Ring == nil {
				return math.Inf(-1)
			}
			return math.Round(100 * r.Ring.Share)
		})),
		number("gpu%", 4, short, func(r R) float64 { return orNone(r.GPUBusy) }),
		number("gmem", 5, short, func(r R) float64 { return orNone(r.GPUMemory) }),
	}
}

func hostColumns() []column[watch.Host] {
	type H = watch.Host
	number := func(name string, width int, text func(float64) string, value func(H) float64) column[H] {
		return column[H]{name, width, func(h H) string {
			if v := value(h); !math.IsInf(v, -1) && h.Age >= 0 {
				return text(v)
			}
			return "-"
		}, most(value)}
	}
	return []column[H]{
		{"host", -13, func(h H) string { return h.Host }, func(a, b H) int { return cmp.Compare(a.Host, b.Host) }},
		number("cpus", 4, short, func(h H) float64 { return float64(h.CPUs) }),
		number("cpu", 5, cores, func(h H) float64 { return h.CPU }),
		number("mem", 5, short, func(h H) float64 { return float64(h.Memory) }),
		number("used", 5, short, func(h H) float64 { return float64(h.Used) }),
		number("read/s", 6, short, func(h H) float64 { return h.Read }),
		number("write/s", 7, short, func(h H) float64 { return h.Written }),
		number("in/s", 5, short, func(h H) float64 { return h.Received }),
		number("out/s", 5, short, func(h H) float64 { return h.Sent }),
		number("gpus", 4, short, func(h H) float64 { return float64(len(h.GPUs)) }),
		number("gpu%", 4, short, func(h H) float64 { busy, _ := gpuMean(h); return busy }),
		number("gmem", 5, short, func(h H) float64 { _, used := gpuMean(h); return used }),
	}
}

func orNone[T float64 | int64](v *T) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return float64(*v)
}

// gpuMean returns how busy the GPUs of a host are, and their memory; negative infinity is unknown.
func gpuMean(h watch.Host) (busy, used float64) {
	known := 0
	for _, g := range h.GPUs {
		used += float64(g.Used)
		if g.Busy >= 0 {
			busy += float64(g.Busy)
			known++
		}
	}
	if len(h.GPUs) == 0 {
		used = math.Inf(-1)
	}
	if known == 0 {
		return math.Inf(-1), used
	}
	return busy / float64(known), used
}

// stateText returns a rank's state in at most 8 letters.
func stateText(r watch.Rank) string {
	if r.Exit != nil {
		if r.Exit.Stopped {
			return "ended"
		}
		if r.Exit.Signal != 0 {
			if name := unix.SignalName(unix.Signal(r.Exit.Signal)); name != "" {
				return name[:min(len(name), 8)]
			}
			return fmt.Sprintf("sig %d", r.Exit.Signal)
		}
		return fmt.Sprintf("exit %d", r.Exit.Code)
	}
	words := map[string]string{"R": "running", "S": "sleeping", "D": "disk", "T": "stopped", "t": "traced",
		"Z": "zombie", "X": "dead", watch.Waiting: "-"}
	if word := words[r.State]; word != "" {
		return word
	}
	return r.State
}

// short formats a number in at most 5 letters, with binary units.
func short(v float64) string {
	if v < 0.05 || math.IsNaN(v) {
		return "0"
	}
	units := " KMGTPE"
	for i := range units {
		unit := strings.TrimSpace(units[i : i+1])
		switch {
		case v < 9.95 && (unit != "" || v != math.Trunc(v)):
			return strconv.FormatFloat(v, 'f', 1, 64) + unit
		case v < 999.5:
			return strconv.FormatFloat(v, 'f', 0, 64) + unit
		}
		v /= 1024
	}
	return "lots"
}

// cores formats a number of cores in at most 5 letters.
func cores(v float64) string {
	if v >= 99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func clock(seconds float64) string {
	d := time.Duration(seconds) * time.Second
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}
