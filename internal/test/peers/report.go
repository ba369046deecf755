package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/bench"
)

// report is the result of a comparison.
type report struct {
	settings
	about   string // the machine
	sides   []side
	samples []map[int][]float64 // of each side, µs by size, one a round
}

// write prints the table and draws the picture.
func (r report) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n\n%s\n%s", r.title(), r.conditions(), r.table()); err != nil {
		return err
	}
	if r.svg == "" {
		return nil
	}
	series := make([]bench.Series, len(r.sides))
	for i, s := range r.sides {
		series[i].Name = s.name
		for _, size := range r.sizes() {
			if us := median(r.samples[i][size]); us > 0 {
				series[i].Rows = append(series[i].Rows, bench.Row{Bytes: size, Median: us})
			}
		}
	}
	var picture bytes.Buffer
	if err := bench.Plot(&picture, r.title(), series); err != nil {
		return err
	}
	return os.WriteFile(r.svg, picture.Bytes(), 0o644)
}

func (r report) title() string {
	where := map[string]string{"shm": "on one host", "tcp": "over loopback TCP", "veth": "over TCP between two network namespaces"}[r.transport]
	return fmt.Sprintf("allreduce of float32, %d ranks %s", r.np, where)
}

// conditions describes how the figures were measured.
func (r report) conditions() string {
	kept := "no rank is kept on a processor, on any side"
	if r.pin {
		kept = "rank r is kept on processor r modulo their number, on all sides"
	}
	notes := ""
	if r.limit() >= 0 {
		notes = fmt.Sprintf("; %s is rank 0's median", r.sides[r.limit()].name)
	}
	if r.streams > 1 {
		notes += fmt.Sprintf("; ring has %d connections between two ranks, the others one", r.streams)
	}
	return fmt.Sprintf("%s; µs, sum out of place, the slowest rank's median, of which the median of rounds that alternate (%d); %s%s.\n", r.about, r.runs, kept, notes)
}

// table has a line per size: times, and ring relative to the others. Over TCP with two ranks every side sends and receives the
// vector once, so speeds are comparable too.
func (r report) table() string {
	var b strings.Builder
	b.WriteString("| bytes |")
	for _, s := range r.sides {
		fmt.Fprintf(&b, " %s |", s.name)
	}
	b.WriteString(" best peer / ring |")
	speeds := r.transport != "shm" && r.np == 2
	columns := len(r.sides) + 2
	if speeds {
		for _, s := range r.sides {
			fmt.Fprintf(&b, " %s GB/s |", s.name)
		}
		columns += len(r.sides)
		if r.limit() >= 0 {
			fmt.Fprintf(&b, " ring / %s, speed |", r.sides[r.limit()].name)
			columns++
		}
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", columns))
	for _, size := range r.sizes() {
		fmt.Fprintf(&b, "| %d |", size)
		for i := range r.sides {
			b.WriteString(cell("%.4g", median(r.samples[i][size])))
		}
		b.WriteString(cell("%.1f", ratio(r.best(size), r.ours(size))))
		if speeds {
			for i := range r.sides {
				b.WriteString(cell("%.2f", ratio(float64(size)/1e3, median(r.samples[i][size]))))
			}
			if r.limit() >= 0 {
				b.WriteString(cell("%.2f", ratio(median(r.samples[r.limit()][size]), r.ours(size))))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (r report) ours(size int) float64 { return median(r.samples[0][size]) }

// best returns the time of the fastest peer that does the same as ring.
func (r report) best(size int) float64 {
	best := 0.0
	for i, s := range r.sides {
		if us := median(r.samples[i][size]); i > 0 && !s.moves && us > 0 && (best == 0 || us < best) {
			best = us
		}
	}
	return best
}

// limit returns the side that shows TCP's limit, or -1.
func (r report) limit() int {
	return slices.IndexFunc(r.sides, func(s side) bool { return s.moves && s.source != nil })
}

// cell returns an empty text where nothing was measured.
func cell(format string, v float64) string {
	if v == 0 {
		return " |"
	}
	return fmt.Sprintf(" "+format+" |", v)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
