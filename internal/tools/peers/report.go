package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/sight/chart"
)

// report is the outcome of a comparison.
type report struct {
	settings
	about     string    // the machine
	libraries []library // ring is the first
	results   []map[int]result
}

// write prints the table and draws the picture.
func (r report) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n\n%s\n%s%s", r.title(), r.conditions(), r.table(), r.verdict()); err != nil {
		return err
	}
	if r.svg == "" {
		return nil
	}
	series := make([]chart.Series, len(r.libraries))
	wire := chart.Series{Name: "plain socket", Dashed: true}
	for i, s := range r.libraries {
		series[i].Name = s.name
		for _, size := range r.sizes() {
			took := 1e-6 * r.results[i][size].median
			series[i].Points = append(series[i].Points, chart.Point{X: float64(size), Y: took})
			if i == 0 {
				wire.Points = append(wire.Points, chart.Point{X: float64(size), Y: 1e-6 * r.results[0][size].wire})
			}
		}
	}
	if r.wire() {
		series = append(series, wire)
	}
	svg := chart.BySize(r.title(), "time", chart.Durations(), series).SVG()
	return os.WriteFile(r.svg, []byte(svg), 0o644)
}

func (r report) title() string {
	where := map[string]string{"shm": "on one host", "tcp": "over loopback TCP",
		"veth": "over TCP between two network namespaces"}[r.transport]
	return fmt.Sprintf("%s of float32, %d ranks %s", r.collective, r.np, where)
}

// conditions describes how the figures were measured.
func (r report) conditions() string {
	kept := "no rank is kept on a processor, by any library"
	if r.pin {
		kept = "rank r is kept on processor r modulo their number, by all libraries"
	}
	notes := ""
	if r.streams > 1 {
		notes += fmt.Sprintf("; ring has %d connections between two ranks, the others one", r.streams)
	}
	return fmt.Sprintf("%s; µs, out of place, bytes of the whole vector, median and 99th percentile of the slowest "+
		"rank, of which the medians of %d rounds in which the libraries take turns; up to 4 KiB 20 calls are timed "+
		"together; %s%s.\n",
		r.about, r.runs, kept, notes)
}

// table has a line per size: times, and ring relative to the others.
func (r report) table() string {
	titles := []string{"bytes"}
	for _, s := range r.libraries {
		titles = append(titles, s.name, "p99")
	}
	if len(r.libraries) > 1 {
		titles = append(titles, "best peer / ring", "its p99 / ring's")
	}
	if r.wire() {
		titles = append(titles, "plain socket", "ring GB/s", "plain socket GB/s", "ring / plain socket, speed")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(titles, " | "), strings.Repeat("---|", len(titles)))
	for _, size := range r.sizes() {
		ours := r.results[0][size]
		fmt.Fprintf(&b, "| %d |", size)
		for i := range r.libraries {
			fmt.Fprintf(&b, " %.4g | %.4g |", r.results[i][size].median, r.results[i][size].p99)
		}
		if len(r.libraries) > 1 {
			best := r.best(size)
			fmt.Fprintf(&b, " %.2f | %.2f |", best.median/ours.median, best.p99/ours.p99)
		}
		if r.wire() {
			speed := func(us float64) float64 { return float64(size) / us / 1e3 }
			fmt.Fprintf(&b, " %.4g | %.2f | %.2f | %.2f |", ours.wire, speed(ours.median), speed(ours.wire),
				ours.wire/ours.median)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// best returns the result of the peer with the least median.
func (r report) best(size int) (best result) {
	for _, results := range r.results[1:] {
		if got := results[size]; best.median == 0 || got.median < best.median {
			best = got
		}
	}
	return best
}

// verdict compares a row with its goal.
func (r report) verdict() string {
	goal, err := find(r.row)
	if err != nil {
		return ""
	}
	least := 0.0
	at := 0
	p99 := 0.0
	for _, size := range r.sizes() {
		ours := r.results[0][size]
		speed := 0.0
		tail := 0.0
		if len(r.libraries) > 1 {
			best := r.best(size)
			speed = best.median / ours.median
			tail = best.p99 / ours.p99
		} else {
			speed = ours.wire / ours.median
		}
		if at == 0 || speed < least {
			least = speed
			at = size
		}
		if p99 == 0 || tail < p99 {
			p99 = tail
		}
	}
	text := fmt.Sprintf("\n%s: %.2f times as fast at worst, at %d bytes; the goal is %g", r.row, least, at, goal.goal)
	if p99 > 0 {
		text += fmt.Sprintf("; p99 %.2f at worst", p99)
	}
	return text + "\n"
}

// middle returns the medians of rounds.
func middle(rounds []result) result {
	of := func(value func(result) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, value(r))
		}
		return median(all)
	}
	return result{
		median: of(func(r result) float64 { return r.median }),
		p99:    of(func(r result) float64 { return r.p99 }),
		wire:   of(func(r result) float64 { return r.wire }),
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
