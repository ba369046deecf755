package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Picture is a plot of a quantity by size.
type Picture struct {
	Title    string
	Quantity string
	Unit     func(value float64) string // shows a value of the quantity
	Series   []Series
}

// Series is one line of a Picture.
type Series struct {
	Name   string
	Points []Point
	Dashed bool
}

// Point is a value at a size in bytes. Only positive ones are drawn.
type Point struct {
	Bytes int
	Value float64
}

const (
	plotWidth      = 760
	plotHeight     = 460
	left           = 70
	right          = 170
	top            = 40
	bottom         = 50
	plotAreaWidth  = plotWidth - left - right
	plotAreaHeight = plotHeight - top - bottom
)

// Plot writes p as SVG, both axes logarithmic.
func Plot(w io.Writer, p Picture) error {
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="24" font-size="15">%s</text>`+
		"\n", left, escape(p.Title))
	x, y := p.axes()
	x.draw(&b, true)
	y.draw(&b, false)
	colours := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}
	for i, s := range p.Series {
		pen := fmt.Sprintf(`stroke="%s"`, colours[i%len(colours)])
		if s.Dashed {
			pen += ` stroke-dasharray="6 4"`
		}
		var points []string
		for _, point := range s.Points {
			if point.drawn() {
				points = append(points, fmt.Sprintf("%.1f,%.1f", left+x.at(float64(point.Bytes))*plotAreaWidth,
					top+(1-y.at(point.Value))*plotAreaHeight))
			}
		}
		fmt.Fprintf(&b, `<polyline fill="none" %s stroke-width="2" points="%s"/>`+"\n", pen, strings.Join(points, " "))
		at := top + 10 + 20*i
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" %s stroke-width="3"/><text x="%d" y="%d">%s</text>`+"\n",
			plotWidth-right+12, at, plotWidth-right+32, at, pen, plotWidth-right+38, at+4, escape(s.Name))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Point) drawn() bool { return p.Bytes > 0 && p.Value > 0 }

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// axis maps values to 0..1 by their logarithm.
type axis struct {
	low, high float64 // logarithms
	base      float64
	ticks     []float64
	label     func(float64) string
	name      string
}

func (p Picture) axes() (x, y axis) {
	x = axis{
		low:   math.Inf(1),
		high:  math.Inf(-1),
		base:  16,
		label: sizeLabel,
		name:  "bytes",
	}
	y = axis{
		low:   math.Inf(1),
		high:  math.Inf(-1),
		base:  10,
		label: p.Unit,
		name:  p.Quantity,
	}
	for _, s := range p.Series {
		for _, point := range s.Points {
			if point.drawn() {
				x.include(float64(point.Bytes))
				y.include(point.Value)
			}
		}
	}
	x.finish()
	y.finish()
	return x, y
}

func (a *axis) include(v float64) {
	a.low = min(a.low, math.Log(v))
	a.high = max(a.high, math.Log(v))
}

// finish widens the axis to whole powers of its base and puts ticks there.
func (a *axis) finish() {
	if a.low > a.high {
		a.low = 0
		a.high = 1
	}
	step := math.Log(a.base)
	first := math.Floor(a.low/step + 1e-9)
	last := math.Ceil(a.high/step - 1e-9)
	if first == last {
		last++
	}
	a.low = first * step
	a.high = last * step
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, math.Pow(a.base, i))
	}
}

func (a axis) at(v float64) float64 { return (math.Log(v) - a.low) / (a.high - a.low) }

func (a axis) draw(b *strings.Builder, horizontal bool) {
	for _, v := range a.ticks {
		if horizontal {
			at := left + a.at(v)*plotAreaWidth
			fmt.Fprintf(b,
				`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
				at, top, at, plotHeight-bottom, at, plotHeight-bottom+18, a.label(v))
			continue
		}
		at := top + (1-a.at(v))*plotAreaHeight
		fmt.Fprintf(b,
			`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, at, plotWidth-right, at, left-8, at+4, a.label(v))
	}
	if horizontal {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+plotAreaWidth/2, plotHeight-12,
			a.name)
	} else {
		fmt.Fprintf(b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
			top+plotAreaHeight/2, a.name)
	}
}

func sizeLabel(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}} {
		if v >= u.size {
			return fmt.Sprintf("%.4g%s", v/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.4g B", v)
}

// Micros shows a time in µs.
func Micros(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.4g s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.4g ms", us/1e3)
	}
	return fmt.Sprintf("%.4g µs", us)
}

// Speed shows a bandwidth in GB/s.
func Speed(gbs float64) string {
	switch {
	case gbs >= 1:
		return fmt.Sprintf("%.4g GB/s", gbs)
	case gbs >= 1e-3:
		return fmt.Sprintf("%.4g MB/s", gbs*1e3)
	}
	return fmt.Sprintf("%.4g kB/s", gbs*1e6)
}
