package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Plot is a chart of lines.
type Plot struct {
	Title  string
	Note   string // line under the title of a Figure
	Text   string // description for screen readers; empty: Title
	X, Y   Axis
	Series []Series
}

// Series is one line of a Plot. A point that an axis cannot show is a gap in it.
type Series struct {
	Name   string // name in the legend, which omits unnamed series
	Points []Point
	Dashed bool
	Band   bool // whether the area from Low to High is filled
}

// Point is a point of a Series.
type Point struct{ X, Y, Low, High float64 }

// BySize returns a plot of a quantity by bytes, with both axes logarithmic.
func BySize(title, quantity string, unit Unit, series []Series) Plot {
	return Plot{
		Title: title,
		X: Axis{
			Name:  "bytes",
			Scale: Logarithmic,
			Base:  16,
			Unit:  Bytes(""),
		},
		Y: Axis{
			Name:  quantity,
			Scale: Logarithmic,
			Unit:  unit,
		},
		Series: series,
	}
}

// legendLine is the height of a line of a legend.
const legendLine = 20.0

// frame is the size of a chart and of its margins.
type frame struct{ width, height, left, right, top, bottom float64 }

func (f frame) innerWidth() float64  { return f.width - f.left - f.right }
func (f frame) innerHeight() float64 { return f.height - f.top - f.bottom }

// SVG returns the chart as a standalone picture.
func (p Plot) SVG() HTML {
	const letter = 7.0 // width of a character
	longest := 0
	for _, s := range p.Series {
		longest = max(longest, utf8.RuneCountInString(s.Name))
	}
	f := frame{
		width:  600,
		height: max(460, 100+legendLine*float64(len(p.Series))),
		left:   110,
		right:  20,
		top:    40,
		bottom: 50,
	}
	if longest > 0 {
		f.right = 50 + letter*float64(longest)
		f.width += f.right
	}
	f.width = max(f.width, f.left+9*float64(utf8.RuneCountInString(p.Title)))
	return Format(`<svg xmlns="http://www.w3.org/2000/svg" width="%v" height="%v" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/><text x="%v" y="24" font-size="15">%s</text>
%s</svg>
`, f.width, f.height, f.left, p.Title, p.draw(f))
}

// draft is the drawing of a Figure where no script runs.
func (p Plot) draft() HTML {
	f := frame{
		width:  320,
		height: 120,
		left:   46,
		right:  8,
		top:    6,
		bottom: 16,
	}
	if slices.ContainsFunc(p.Series, func(s Series) bool { return s.Name != "" }) {
		f.right += 100
		f.width += 100
	}
	few := p
	few.Series = nil
	for _, s := range p.Series {
		s.Points = thin(s.Points)
		few.Series = append(few.Series, s)
	}
	return Format(`<svg viewBox="0 0 %v %v" role="img" aria-label="%s">
%s</svg>`, f.width, f.height, cmp.Or(p.Text, p.Title), few.draw(f))
}

// thin returns at most some dozens of points, the last among them.
func thin(points []Point) (few []Point) {
	const most = 48
	every := len(points)/most + 1
	for i := (len(points) - 1) % every; i < len(points); i += every {
		few = append(few, points[max(i, 0)])
	}
	return few
}

func (p Plot) draw(f frame) HTML {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, run := range p.runs(s) {
			for _, point := range run {
				xs = append(xs, point.X)
				ys = append(ys, point.Y)
				if s.Band {
					ys = append(ys, point.Low, point.High)
				}
			}
		}
	}
	x := p.X.over(xs)
	y := p.Y.over(ys)
	parts := []HTML{f.horizontal(x), f.vertical(y)}
	place := func(at, v float64) string {
		return fmt.Sprintf("%.1f,%.1f", f.left+x.at(at)*f.innerWidth(), f.top+(1-y.at(v))*f.innerHeight())
	}
	colours := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}
	for i, s := range p.Series {
		pen := Format(`stroke="%s"`, colours[i%len(colours)])
		if s.Dashed {
			pen += ` stroke-dasharray="6 4"`
		}
		for _, run := range p.runs(s) {
			var line, low, high []string
			for _, point := range run {
				line = append(line, place(point.X, point.Y))
				if s.Band {
					low = append(low, place(point.X, point.Low))
					high = append(high, place(point.X, point.High))
				}
			}
			if s.Band {
				slices.Reverse(low)
				parts = append(parts, Format(`<polygon fill="%s" fill-opacity="0.25" points="%s"/>`+"\n",
					colours[i%len(colours)], strings.Join(append(high, low...), " ")))
			}
			parts = append(parts, Format(`<polyline fill="none" %s stroke-width="2" points="%s"/>`+"\n", pen,
				strings.Join(line, " ")))
		}
		if s.Name != "" {
			parts = append(parts, f.legend(i, pen, s.Name))
		}
	}
	return join(parts)
}

// runs returns the points of s between its gaps.
func (p Plot) runs(s Series) (runs [][]Point) {
	open := false
	for _, point := range s.Points {
		shown := p.X.shows(point.X) && p.Y.shows(point.Y)
		switch {
		case shown && open:
			runs[len(runs)-1] = append(runs[len(runs)-1], point)
		case shown:
			runs = append(runs, []Point{point})
		}
		open = shown
	}
	return runs
}

func (f frame) horizontal(x span) HTML {
	var parts []HTML
	bottom := f.height - f.bottom
	for _, v := range x.ticks {
		at := f.left + x.at(v)*f.innerWidth()
		parts = append(parts, Format(`<line x1="%.1f" y1="%v" x2="%.1f" y2="%v" stroke="#8884"/>`+
			`<text x="%.1f" y="%v" text-anchor="middle">%s</text>`+"\n",
			at, f.top, at, bottom, at, bottom+min(18, f.bottom-4), x.label(v)))
	}
	if x.Name != "" {
		parts = append(parts, Format(`<text x="%v" y="%v" text-anchor="middle">%s</text>`+"\n",
			f.left+f.innerWidth()/2, f.height-12, x.Name))
	}
	return join(parts)
}

func (f frame) vertical(y span) HTML {
	var parts []HTML
	for _, v := range y.ticks {
		at := f.top + (1-y.at(v))*f.innerHeight()
		parts = append(parts, Format(`<line x1="%v" y1="%.1f" x2="%v" y2="%.1f" stroke="#8884"/>`+
			`<text x="%v" y="%.1f" text-anchor="end">%s</text>`+"\n",
			f.left, at, f.width-f.right, at, f.left-4, at+3, y.label(v)))
	}
	if y.Name != "" {
		parts = append(parts, Format(`<text transform="translate(14 %v) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
			f.top+f.innerHeight()/2, y.Name))
	}
	return join(parts)
}

// legend returns the line of the nth series beside the chart.
func (f frame) legend(n int, pen HTML, name string) HTML {
	left := f.width - f.right + 12
	at := f.top + 10 + legendLine*float64(n)
	return Format(`<line x1="%v" y1="%v" x2="%v" y2="%v" %s stroke-width="3"/><text x="%v" y="%v">%s</text>`+"\n",
		left, at, left+20, at, pen, left+26, at+4, name)
}
