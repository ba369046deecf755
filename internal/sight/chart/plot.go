package chart

import (
	"cmp"
	"image/color"
	"slices"
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
	f := p.frame()
	to := &svg{}
	p.draw(f, to)
	return Format(`<svg xmlns="http://www.w3.org/2000/svg" width="%v" height="%v" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/><text x="%v" y="24" font-size="15">%s</text>
%s</svg>
`, f.width, f.height, f.left, p.Title, join(to.parts))
}

// frame returns the size of a standalone picture.
func (p Plot) frame() frame {
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
	return f
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
	to := &svg{}
	few.draw(f, to)
	return Format(`<svg viewBox="0 0 %v %v" role="img" aria-label="%s">
%s</svg>`, f.width, f.height, cmp.Or(p.Text, p.Title), join(to.parts))
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

// draw draws axes, lines and legend.
func (p Plot) draw(f frame, to canvas) {
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
	f.horizontal(x, to)
	f.vertical(y, to)
	at := func(at, v float64) spot {
		return spot{f.left + x.at(at)*f.innerWidth(), f.top + (1-y.at(v))*f.innerHeight()}
	}
	colours := []color.NRGBA{{0, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0, 0xff}, {0, 0x9e, 0x73, 0xff},
		{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0, 0xff}, {0x56, 0xb4, 0xe9, 0xff}}
	for i, s := range p.Series {
		pen := pen{colours[i%len(colours)], 2, s.Dashed}
		for _, run := range p.runs(s) {
			var line, low, high []spot
			for _, point := range run {
				line = append(line, at(point.X, point.Y))
				if s.Band {
					low = append(low, at(point.X, point.Low))
					high = append(high, at(point.X, point.High))
				}
			}
			if s.Band {
				slices.Reverse(low)
				to.area(append(high, low...), pen.colour)
			}
			to.curve(line, pen)
		}
		if s.Name != "" {
			f.legend(i, pen, s.Name, to)
		}
	}
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

func (f frame) horizontal(x span, to canvas) {
	bottom := f.height - f.bottom
	for _, v := range x.ticks {
		at := f.left + x.at(v)*f.innerWidth()
		to.line(spot{at, f.top}, spot{at, bottom}, grid())
		to.text(spot{at, bottom + min(18, f.bottom-4)}, middle, x.label(v))
	}
	if x.Name != "" {
		to.text(spot{f.left + f.innerWidth()/2, f.height - 12}, middle, x.Name)
	}
}

func (f frame) vertical(y span, to canvas) {
	for _, v := range y.ticks {
		at := f.top + (1-y.at(v))*f.innerHeight()
		to.line(spot{f.left, at}, spot{f.width - f.right, at}, grid())
		to.text(spot{f.left - 4, at + 3}, end, y.label(v))
	}
	if y.Name != "" {
		to.upright(spot{14, f.top + f.innerHeight()/2}, y.Name)
	}
}

// grid is the pen of the lines at ticks.
func grid() pen { return pen{color.NRGBA{0x88, 0x88, 0x88, 0x44}, 1, false} }

// legend draws the line of the nth series beside the chart.
func (f frame) legend(n int, of pen, name string, to canvas) {
	left := f.width - f.right + 12
	at := f.top + 10 + legendLine*float64(n)
	of.width = 3
	to.line(spot{left, at}, spot{left + 20, at}, of)
	to.text(spot{left + 26, at + 4}, start, name)
}
