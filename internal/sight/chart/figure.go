package chart

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// drawing is a Plot as page.js reads it.
type drawing struct {
	X        axisDrawing     `json:"x"`
	Y        axisDrawing     `json:"y"`
	Series   []seriesDrawing `json:"series"`
	Together bool            `json:"together"` // whether lines go on over values that only others have
	Points   bool            `json:"points"`   // whether points are marked
	Data     [][]number      `json:"data"`     // x; then for each series y, and low and high of a band
}

type axisDrawing struct {
	Name    string   `json:"name"`
	Time    bool     `json:"time"`
	Log     bool     `json:"log"`
	Unit    Unit     `json:"unit"`
	Include []number `json:"include"`
}

type seriesDrawing struct {
	Name   string `json:"name"`
	Dashed bool   `json:"dashed"`
	Band   bool   `json:"band"`
}

// number is a number of JSON with six digits, or null if it is NaN or infinite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 6, 64), nil
}

func (a Axis) drawing() axisDrawing {
	d := axisDrawing{
		Name:    a.Name,
		Time:    a.Scale == Time,
		Log:     a.Scale == Logarithmic,
		Unit:    a.Unit,
		Include: []number{},
	}
	if len(a.Unit) == 0 {
		d.Unit = In("")
	}
	for _, v := range a.Include {
		d.Include = append(d.Include, number(v))
	}
	return d
}

// maxMarked is the largest number of points that are marked on lines.
const maxMarked = 20

// Figure returns the chart as a part of a page, with values below the pointer and by keys.
func (p Plot) Figure() (HTML, error) {
	text, err := json.Marshal(p.drawing()) // escapes <, > and & as \u003c and the like
	if err != nil {
		return "", err
	}
	in := ""
	if u := p.Y.Unit; len(u) == 1 && u[0].Name != "" {
		in = ", " + u[0].Name
	}
	return Format(`<figure class="plot"><figcaption>%s%s <small>%s</small></figcaption>
<div class="canvas" tabindex="0" role="group" aria-label="%s. Arrow keys read values, + and - zoom."></div>
<script type="application/json">%s</script><noscript>%s</noscript></figure>
`, p.Title, in, p.Note, cmp.Or(p.Text, p.Title), HTML(text), p.draft()), nil
}

func (p Plot) drawing() drawing {
	var xs []float64
	for _, v := range p.X.Include {
		if p.X.shows(v) {
			xs = append(xs, v)
		}
	}
	longest := 0
	for _, s := range p.Series {
		longest = max(longest, len(s.Points))
		for _, point := range s.Points {
			if p.X.shows(point.X) {
				xs = append(xs, point.X)
			}
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	d := drawing{
		X:        p.X.drawing(),
		Y:        p.Y.drawing(),
		Together: len(p.Series) > 1,
		Points:   longest <= maxMarked,
		Data:     [][]number{numbers(xs)},
	}
	for _, s := range p.Series {
		d.Series = append(d.Series, seriesDrawing{Name: cmp.Or(s.Name, "median"), Dashed: s.Dashed, Band: s.Band})
		d.Data = append(d.Data, p.columns(s, xs)...)
	}
	return d
}

// columns returns the values of s at each of xs: y, and low and high of a band.
func (p Plot) columns(s Series, xs []float64) [][]number {
	var columns [][]number
	of := []func(Point) float64{func(at Point) float64 { return at.Y }}
	if s.Band {
		of = append(of, func(at Point) float64 { return at.Low }, func(at Point) float64 { return at.High })
	}
	for _, value := range of {
		column := make([]float64, len(xs))
		for i := range column {
			column[i] = math.NaN()
		}
		for _, point := range s.Points {
			if i, found := slices.BinarySearch(xs, point.X); found && p.Y.shows(value(point)) {
				column[i] = value(point)
			}
		}
		columns = append(columns, numbers(column))
	}
	return columns
}

func numbers(values []float64) (out []number) {
	for _, v := range values {
		out = append(out, number(v))
	}
	return out
}
