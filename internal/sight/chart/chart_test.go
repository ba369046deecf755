package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/image/vector"

	"github.com/gorun/gorun/internal/test/browser"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// wellFormed fails the test unless every element is closed.
func wellFormed(t *testing.T, text HTML) {
	t.Helper()
	text = HTML(strings.Replace(strings.TrimPrefix(string(text), "<!doctype html>"), string(Scripts()), "", 1))
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
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
		plot := BySize("title", "bus bandwidth", Bandwidth(), s)
		lines := max(len(s)-1, 0) // the last has no points
		for _, text := range []HTML{plot.SVG(), must.Get(plot.Figure())(t)} {
			wellFormed(t, text)
			check.That(t, strings.Count(string(text), "<polyline") == lines && !strings.Contains(string(text), "Inf"),
				"%d series are\n%s", len(s), text)
			n := strings.Count(string(text), `stroke-width="3"`)
			check.That(t, n == len(s), "%d series have %d lines of a legend", len(s), n)
		}
	}
}

// A picture in pixels has what the SVG has: its proportions, every line in its colour from its
// first point to its last, dashes with gaps, and letters beside both axes.
func TestPicturesInPixels(t *testing.T) {
	ends := []Point{{X: 1, Y: 100}, {X: 16, Y: 10}, {X: 256, Y: 100}}
	plot := BySize("title", "bus bandwidth", Durations(), []Series{{Name: "whole", Points: ends},
		{Name: "dashed", Points: []Point{{X: 1, Y: 1}, {X: 256, Y: 1}}, Dashed: true}})
	svg := string(must.Get(plot.Picture("plot.svg"))(t))
	check.Equal(t, svg, string(plot.SVG()))
	img := must.Get(png.Decode(bytes.NewReader(must.Get(plot.Picture("plot.PNG"))(t))))(t)
	f := plot.frame()
	check.Equal(t, img.Bounds().Size(), image.Pt(int(math.Ceil(density*f.width)), int(density*f.height)))
	is := func(x, y float64, want color.NRGBA) bool {
		return color.NRGBAModel.Convert(img.At(int(density*x), int(density*y))) == want
	}
	blue := color.NRGBA{0, 0x72, 0xb2, 0xff}
	orange := color.NRGBA{0xd5, 0x5e, 0, 0xff}
	check.That(t, is(f.left+.2*f.innerWidth(), f.top+.2*f.innerHeight(), blue), "no line")
	gaps := 0
	for x := f.left + 1; x < f.width-f.right; x++ {
		y := f.height - f.bottom
		if is(x, y, orange) != is(x-1, y, orange) {
			gaps++
		}
	}
	check.That(t, gaps > 40 && gaps < 120, "%d ends of dashes", gaps)
	dark := func(left, top, right, bottom float64) (n int) {
		for y := top; y < bottom; y += .5 {
			for x := left; x < right; x += .5 {
				if is(x, y, color.NRGBA{A: 0xff}) {
					n++
				}
			}
		}
		return n
	}
	for name, part := range map[string][4]float64{
		"the title":        {f.left, 0, f.width, f.top},
		"the vertical":     {0, f.top, 24, f.height},
		"its ticks":        {f.left - 60, f.top, f.left, f.height},
		"the horizontal":   {f.left, f.height - 24, f.width, f.height},
		"the legend's own": {f.width - f.right + 34, f.top, f.width, f.height},
	} {
		check.That(t, dark(part[0], part[1], part[2], part[3]) > 20, "no letters: %s", name)
	}
}

// The names of a legend and the ticks have room, however long and many they are.
func TestLabelsHaveRoom(t *testing.T) {
	var series []Series
	for i := range 40 {
		name := fmt.Sprint("bfloat16 maximum, in place, on a network of its own ", i)
		series = append(series, Series{Name: name, Points: []Point{{X: 8, Y: 1e8}, {X: 1 << 30, Y: 1e11}}})
	}
	text := string(BySize("allreduce", "bus bandwidth", Bandwidth(), series).SVG())
	var width, height float64
	must.Get(fmt.Sscanf(text, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g"`, &width, &height))(t)
	labels := regexp.MustCompile(`<text x="([\d.]+)" y="([\d.]+)"( text-anchor="\w+")?>([^<]*)<`)
	for _, m := range labels.FindAllStringSubmatch(text, -1) {
		x := must.Get(strconv.ParseFloat(m[1], 64))(t)
		y := must.Get(strconv.ParseFloat(m[2], 64))(t)
		long := 6.5 * float64(utf8.RuneCountInString(m[4]))
		left := x
		switch {
		case strings.Contains(m[3], "end"):
			left = x - long
		case strings.Contains(m[3], "middle"):
			left = x - long/2
		}
		axis := strings.Contains(m[3], "end") // ticks of the vertical axis, beside its name
		check.That(t, left+long <= width && y < height && (left > 24 || !axis),
			"%q from %g to %g at %g, of %g by %g", m[4], left, left+long, y, width, height)
	}
}

func TestGapsDivideLines(t *testing.T) {
	nan := math.NaN()
	points := []Point{{0, 1, 0, 2}, {1, 2, 1, 3}, {2, nan, nan, nan}, {3, 1, 1, 1}, {4, 2, 0, 4}}
	plot := Plot{Series: []Series{{Band: true, Points: points}}}
	text := string(must.Get(plot.Figure())(t))
	wellFormed(t, HTML(text))
	check.That(t, strings.Count(text, "<polyline") == 2 && strings.Count(text, "<polygon") == 2 &&
		!strings.Contains(text, "NaN"), "%s", text)
	data := `"data":[[0,1,2,3,4],[1,2,null,1,2],[0,1,null,1,0],[2,3,null,1,4]]`
	check.That(t, strings.Contains(text, data), "no %s in %s", data, text)
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
		check.That(t, slices.EqualFunc(s.ticks, c.ticks, func(a, b float64) bool { return math.Abs(a-b) < 1e-9*(1+b) }),
			"%s: %v, want %v", name, s.ticks, c.ticks)
		for _, v := range c.values {
			if c.axis.shows(v) && (s.at(v) < 0 || s.at(v) > 1) {
				t.Errorf("%s: %v is at %v", name, v, s.at(v))
			}
		}
	}
}

// A page obeys nothing of what hosts and users say.
func TestPageIsEscaped(t *testing.T) {
	const evil = "\"></script><script>alert(1)</script>\x1b[2J"
	heat := HeatMap{
		Text:    evil,
		Corner:  evil,
		Rows:    []string{evil},
		Columns: []string{evil, "b"},
	}
	heat.Cells = []Cell{{Heat: 2, Value: evil, Text: evil}, {Column: 1, Heat: math.NaN()}}
	plot := BySize(evil, evil, In(evil), []Series{{Name: evil, Points: []Point{{X: 1, Y: 1}}}})
	plot.Note = evil
	plot.Text = evil
	timeline := Timeline{End: 9, Lanes: []Lane{{Name: evil, Marks: []Mark{{At: 1, Text: evil}}}}, Raster: &Raster{
		Text: evil,
		Heat: [][]float64{{0, 1, math.NaN()}},
		Unit: In(evil),
	}}
	page := Page(evil, Section(evil, evil, Table(evil, []string{evil}, [][]string{{evil}})),
		must.Get(timeline.HTML())(t), heat.HTML(),
		Bars(evil, []Bar{{Name: evil, Value: 2, Text: evil}, {Name: "less", Value: -1}}),
		must.Get(plot.Figure())(t), Cards([]Card{{Name: evil, Value: evil, Note: evil}}),
		Format("<p>%s %v</p>", evil, errors.New(evil)))
	wellFormed(t, page)
	own := strings.Replace(string(page), string(Scripts()), "", 1)
	for _, part := range []string{"<script>", "\x1b", "NaN", `="-`, " style=", " onclick="} {
		check.That(t, !strings.Contains(own, part), "%q is in %s", part, own)
	}
	check.That(t, Bars("none", []Bar{{Name: "a"}}) == "", "bars without values are drawn")
}

// Browsers run the scripts of a page, and would run no others.
func TestScriptsAreNamedByTheirHashes(t *testing.T) {
	page := string(Page("title"))
	for _, element := range []string{"script", "style"} {
		for _, m := range regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1) {
			sum := sha256.Sum256([]byte(m[1]))
			check.That(t, strings.Contains(page, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'"),
				"no hash of a %s", element)
		}
	}
	for _, part := range []string{"default-src 'none'", "Permission is hereby granted"} {
		check.That(t, strings.Contains(page, part), "no %q", part)
	}
	for _, part := range []string{"unsafe", "connect-src"} {
		check.That(t, !strings.Contains(page, part), "%q is there", part)
	}
}

// The files of uPlot are those that SOURCE names, which .ci/uplot compares with the package.
func TestLibraryIsTheNamedOne(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		sum := sha256.Sum256(must.Get(os.ReadFile(filepath.Join("uplot", name)))(t))
		check.Equal(t, hex.EncodeToString(sum[:]), want, name)
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Number(math.NaN()): "-", Number(3): "3", Number(123.4): "123", Number(12.34): "12.3", Number(1.234): "1.23",
		Seconds(3599.7): "1h0m0s", Bytes("").Format(8): "8 B", Bytes("").Format(64 << 10): "64 KiB",
		Bytes("/s").Format(3 << 29): "1.5 GiB/s", In("%").Format(5): "5 %", In("").Format(5): "5",
		Durations().Format(1e-7): "0.1 µs", Durations().Format(2.5e-3): "2.5 ms", Durations().Format(2): "2 s",
		Bandwidth().Format(2e9): "2 GB/s", Bandwidth().Format(1e8): "100 MB/s", Bandwidth().Format(1e4): "10 kB/s",
		Bandwidth().Format(math.NaN()): "-",
	} {
		check.Equal(t, got, want)
	}
}

// A browser draws plots, reads them by keys and by the pointer, and sorts and searches tables.
func TestBrowserDrawsPlots(t *testing.T) {
	var points []Point
	for i := range 101 {
		points = append(points, Point{
			X:    float64(36 * i),
			Y:    float64(i << 20),
			Low:  float64(i << 19),
			High: float64(i << 21),
		})
	}
	time := Axis{Name: "time", Scale: Time}
	band := must.Get(Plot{
		Title:  "Memory",
		X:      time,
		Y:      Axis{Unit: Bytes("")},
		Series: []Series{{Band: true, Points: points}},
	}.Figure())(t)
	pair := must.Get(Plot{
		Title:  "CPU",
		X:      time,
		Y:      Axis{Unit: In("cores")},
		Series: []Series{{Name: "a", Points: points}, {Name: "b", Points: points[:50], Dashed: true}},
	}.Figure())(t)
	var rows [][]string
	for i := range 20 {
		rows = append(rows, []string{fmt.Sprint(i), fmt.Sprint("f", 20-i), Number(1.5 * float64(i%7))})
	}
	timeline := must.Get(Timeline{End: 3600, Raster: &Raster{
		Heat: [][]float64{{0, 0.5}, {1, math.NaN()}, {0, 0}},
		Rows: 2,
		End:  3600,
		Most: 8,
		Unit: In("cores"),
	}}.HTML())(t)
	tab := browser.OpenText(t, string(Page("plots", Section("Plots", "", `<div class="charts">`, band, pair, "</div>"),
		timeline, Table("rows", []string{"n", "host", "value"}, rows))))
	check.Equal(t, tab.Eval(`document.querySelectorAll('.canvas canvas').length`), "2")
	tab.Eval(`document.querySelector('.canvas').focus()`)
	for range 3 {
		tab.Press("ArrowRight")
	}
	check.Equal(t, tab.Eval(`document.querySelector('.said').textContent`),
		`"1m12s, median 2 MiB, least 1 MiB, most 4 MiB"`)
	tab.Press("+")
	tab.Until(`plots[0].u.scales.x.max < 3600 && plots[1].u.scales.x.max == plots[0].u.scales.x.max`)
	tab.Press("Escape")
	tab.Until(`plots[1].u.scales.x.max == 3600`)
	tab.Point(".raster")
	tab.Until(`document.querySelector('.reading').textContent == 'rank 1 at 30m0s: not running'`)
	tab.Eval(`document.querySelectorAll('.scroll th button')[1].click()`)
	check.Equal(t, tab.Eval(`document.querySelector('.scroll tbody').rows[1].textContent`), `"18f26"`)
	tab.Eval(`(() => { const s = document.querySelector('.search'); s.value = 'F2'; s.dispatchEvent(new Event('input')) })()`)
	check.Equal(t, tab.Eval(`[...document.querySelector('.scroll tbody').rows].filter(r => !r.hidden).length`), "2")
	tab.Shows("plots")
}

// Many short rows, as a record of a million ranks has, take no more than long ones: their markup
// counts.
func TestTableOfManyShortRowsIsBounded(t *testing.T) {
	rows := slices.Repeat([][]string{{"1", "", "", "0", "0", "0"}}, 1<<18)
	text := string(Table("Ranks", []string{"rank"}, rows))
	check.That(t, len(text) <= maxTable && strings.Contains(text, " more rows left out"), "%d bytes", len(text))
}

// A line is painted in its own room: a picture of hundreds would take minutes.
func TestLinesArePaintedInTheirRoom(t *testing.T) {
	c := &pixels{image: image.NewNRGBA(image.Rect(0, 0, 1000, 5000)), fill: vector.NewRasterizer(0, 0)}
	c.line(spot{10, 100}, spot{400, 100}, grid())
	check.That(t, c.fill.Size().Y < 10, "it takes %v", c.fill.Size())
	c.line(spot{-1e9, math.Inf(-1)}, spot{1e9, 1e300}, grid())
	check.That(t, c.fill.Size().X <= 1000 && c.fill.Size().Y <= 5000, "it takes %v", c.fill.Size())
}
