package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// wellFormed fails the test unless every element is closed.
func wellFormed(t *testing.T, text HTML) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(string(text), "<!doctype html>"))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	series := []Series{
		{Name: "a <b> & c", Points: []Point{{X: 8, Y: 0.2}, {X: 64 << 20, Y: 6700}}},
		{Name: "one point and none", Points: []Point{{X: 1024, Y: 3}, {X: 2048}}, Dashed: true},
		{Name: "none"},
	}
	for _, s := range [][]Series{series, series[2:], nil} {
		plot := BySize("title", "bus bandwidth", Bandwidth, s)
		lines := max(len(s)-1, 0) // the last has no points
		for _, text := range []HTML{plot.SVG(), plot.Figure()} {
			wellFormed(t, text)
			check.That(t, strings.Count(string(text), "<polyline") == lines && !strings.Contains(string(text), "Inf"),
				"%d series are\n%s", len(s), text)
			if n := strings.Count(string(text), `stroke-width="3"`); n != len(s) {
				t.Errorf("%d series have %d lines of a legend", len(s), n)
			}
		}
	}
}

func TestGapsDivideLines(t *testing.T) {
	nan := math.NaN()
	points := []Point{{0, 1, 0, 2}, {1, 2, 1, 3}, {2, nan, nan, nan}, {3, 1, 1, 1}, {4, 2, 0, 4}}
	axis := Axis{Label: Number}
	plot := Plot{X: axis, Y: axis, Series: []Series{{Band: true, Points: points}}}
	text := string(plot.Figure())
	wellFormed(t, HTML(text))
	if strings.Count(text, "<polyline") != 2 || strings.Count(text, "<polygon") != 2 || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

func TestTicks(t *testing.T) {
	for name, c := range map[string]struct {
		axis   Axis
		values []float64
		ticks  []float64
	}{
		"nothing":         {Axis{}, nil, []float64{0, 0.5, 1}},
		"one value":       {Axis{}, []float64{7}, []float64{7, 7.5, 8}},
		"from zero":       {Axis{Include: []float64{0, 100}}, []float64{7}, []float64{0, 50, 100}},
		"large":           {Axis{Include: []float64{0}}, []float64{7000}, []float64{0, 2000, 4000, 6000}},
		"seconds":         {Axis{Scale: Time}, []float64{0, 2}, []float64{0, 1, 2}},
		"minutes":         {Axis{Scale: Time}, []float64{0, 130}, []float64{0, 60, 120}},
		"an hour":         {Axis{Scale: Time}, []float64{0, 3600}, []float64{0, 1200, 2400, 3600}},
		"powers of ten":   {Axis{Scale: Logarithmic}, []float64{0, 3, 500}, []float64{1, 10, 100, 1000}},
		"powers of 16":    {Axis{Scale: Logarithmic, Base: 16}, []float64{8, 256}, []float64{1, 16, 256}},
		"only one power":  {Axis{Scale: Logarithmic}, []float64{10}, []float64{10, 100}},
		"none is defined": {Axis{Scale: Logarithmic}, []float64{-1, math.NaN(), math.Inf(1)}, []float64{1, 10}},
	} {
		s := c.axis.over(c.values)
		if !slices.EqualFunc(s.ticks, c.ticks, func(a, b float64) bool { return math.Abs(a-b) < 1e-9*(1+b) }) {
			t.Errorf("%s: %v, want %v", name, s.ticks, c.ticks)
		}
		for _, v := range c.values {
			if c.axis.shows(v) && (s.at(v) < 0 || s.at(v) > 1) {
				t.Errorf("%s: %v is at %v", name, v, s.at(v))
			}
		}
	}
}

// A page obeys nothing of what hosts and users say.
func TestPageIsEscaped(t *testing.T) {
	const evil = "\"><script>alert(1)</script>\x1b[2J"
	raster := must.Get(Raster([][]float64{{0, 1, math.NaN()}}, 9, evil))(t)
	heat := HeatMap{Text: evil, Rows: []string{evil}, Columns: []string{evil}}
	heat.Cells = []Cell{{Heat: 2, Text: evil}, {Heat: math.NaN()}}
	plot := BySize(evil, evil, Micros, nil)
	plot.Note = evil
	plot.Text = evil
	page := Page(evil, Section(evil, evil, Table(evil, []string{evil}, [][]string{{evil}})), raster,
		heat.SVG(), Bars(evil, []Bar{{Name: evil, Value: 2, Text: evil}, {Name: "less", Value: -1}}),
		plot.Figure(), Format("<p>%s %v</p>", evil, errors.New(evil)))
	wellFormed(t, page)
	for _, part := range []string{"<script", "\x1b", "NaN", `="-`} {
		check.That(t, !strings.Contains(string(page), part), "%q is in %s", part, page)
	}
	check.That(t, Bars("none", []Bar{{Name: "a"}}) == "", "bars without values are drawn")
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Number(math.NaN()): "-", Number(3): "3", Number(123.4): "123", Number(12.34): "12.3", Number(1.234): "1.23",
		Seconds(3599.7): "1h0m0s", Bytes(8): "8 B", Bytes(64 << 10): "64 KiB", Bytes(3 << 29): "1.5 GiB",
		Micros(0.1): "0.1 µs", Micros(2500): "2.5 ms", Micros(2e6): "2 s",
		Bandwidth(2): "2 GB/s", Bandwidth(0.1): "100 MB/s", Bandwidth(1e-5): "10 kB/s",
	} {
		check.Equal(t, got, want)
	}
}
