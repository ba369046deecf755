package chart

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math"
)

// shades is the number of colours of a Raster.
const shades = 64

// Raster is a heat map of ranks over time, with more cells than have room for texts.
type Raster struct {
	Text string      // description for screen readers
	Heat [][]float64 // columns from left to right, each from the top down; 0 to 1; NaN is transparent
	Rows int         // ranks of a column of Heat, of which each row may have several
	End  float64     // time at the right edge, in seconds; the left one is 0
	Most float64     // value of heat 1; that of heat h is h² times as much
	Unit Unit
}

// Timeline is what happens over time: rows of marks and a Raster, above one axis.
type Timeline struct {
	End    float64 // seconds at the right edge
	Lanes  []Lane
	Raster *Raster // nil: none
}

// Lane is a row of marks.
type Lane struct {
	Name  string
	Class string // bad, warning or ""
	Marks []Mark
}

// Mark is an event in a Lane.
type Mark struct {
	At   float64 // seconds
	Text string
}

// HTML returns the timeline as a part of a page.
func (t Timeline) HTML() (HTML, error) {
	var rows []HTML
	percent := func(at float64) HTML { return Format("%.2f%%", 100*min(max(at/max(t.End, 1e-9), 0), 1)) }
	for _, lane := range t.Lanes {
		var marks []HTML
		for _, m := range lane.Marks {
			at := percent(m.At)
			marks = append(marks, Format(`<line x1="%s" x2="%s" y1="2" y2="14"><title>%s</title></line>`, at, at,
				Seconds(m.At)+" "+m.Text))
		}
		rows = append(rows, Format(`<span>%s</span><svg class="lane %s" role="img" aria-label="%s">%s</svg>`+"\n", lane.Name,
			lane.Class, lane.Name+": the table of events has the times", join(marks)))
	}
	after := HTML("")
	if t.Raster != nil {
		img, legend, err := t.Raster.parts()
		if err != nil {
			return "", err
		}
		rows = append(rows, Format(`<span class="names"><span>rank 0</span><span>rank %d</span></span>%s`+"\n",
			max(t.Raster.Rows-1, 0), img))
		after = legend
	}
	var ticks []HTML
	axis := Axis{Scale: Time}.over([]float64{0, t.End})
	for i, v := range axis.ticks {
		anchor := "middle"
		switch {
		case i == 0:
			anchor = "start"
		case v > .95*t.End:
			anchor = "end"
		}
		ticks = append(ticks, Format(`<text x="%s" y="12" text-anchor="%s">%s</text>`, percent(v), anchor, axis.label(v)))
	}
	return Format(`<figure class="heat"><div class="time">
%s<span></span><svg aria-hidden="true">%s</svg></div>
%s</figure>
`, join(rows), join(ticks), after), nil
}

// parts returns the picture, and what stands below it.
func (r Raster) parts() (img, legend HTML, err error) {
	data, err := picture(r.Heat)
	if err != nil {
		return "", "", err
	}
	ramp := make([][]float64, shades)
	for i := range ramp {
		ramp[i] = []float64{float64(i) / (shades - 1)}
	}
	scale, err := picture(ramp)
	if err != nil {
		return "", "", err
	}
	spec, err := json.Marshal(struct {
		Rows int    `json:"rows"`
		End  number `json:"end"`
		Most number `json:"most"`
		Unit Unit   `json:"unit"`
	}{r.Rows, number(r.End), number(r.Most), r.Unit})
	if err != nil {
		return "", "", err
	}
	size := HTML("")
	if r.Rows < 5 {
		size = " few"
	}
	return Format(`<img class="raster%s" tabindex="0" src="%s" alt="%s"/>`, size, data, r.Text),
		Format(`<div class="scale"><span>%s</span><span><img src="%s" alt="scale"/>%s</span><span>%s</span></div>
<output class="reading"></output><script type="application/json">%s</script>`, r.Unit.Format(0), scale,
			r.Unit.Format(r.Most/4), r.Unit.Format(r.Most), HTML(spec)), nil
}

// picture returns the address of a PNG of heats.
func picture(heat [][]float64) (HTML, error) {
	palette := color.Palette{color.NRGBA{}}
	for i := range shades {
		palette = append(palette, shade(float64(i)/(shades-1)))
	}
	height := 1
	if len(heat) > 0 {
		height = max(len(heat[0]), 1)
	}
	img := image.NewPaletted(image.Rect(0, 0, max(len(heat), 1), height), palette)
	for x, column := range heat {
		for y, h := range column {
			if !math.IsNaN(h) {
				img.SetColorIndex(x, y, 1+uint8(math.Round(min(max(h, 0), 1)*(shades-1))))
			}
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img); err != nil {
		return "", err
	}
	return HTML("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// shade returns the colour of a heat from 0 to 1: those of viridis, which also tell apart those who
// see few colours.
func shade(heat float64) color.NRGBA {
	stops := [...][3]float64{{68, 1, 84}, {72, 40, 120}, {62, 74, 137}, {49, 104, 142}, {38, 130, 142}, {31, 158, 137},
		{53, 183, 121}, {109, 205, 89}, {180, 222, 44}, {253, 231, 37}}
	at := min(max(heat, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	part := at - float64(i)
	mix := func(c int) uint8 { return uint8(math.Round(stops[i][c]*(1-part) + stops[i+1][c]*part)) }
	return color.NRGBA{
		R: mix(0),
		G: mix(1),
		B: mix(2),
		A: 255,
	}
}
