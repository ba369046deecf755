package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sizes of a chart in its own units.
const (
	chartWidth  = 320
	chartHeight = 72
	maxColumns  = 240 // times of a chart, and columns of a map
	maxRows     = 512 // of a map; more ranks share rows
)

// series is a number of each rank, or host, over time; NaN is nothing.
type series [][]float64

// bands are the least, the median and the most at each time.
type bands struct{ least, middle, most []float64 }

func (s series) bands() (b bands) {
	for _, column := range s {
		known := slices.DeleteFunc(slices.Clone(column), math.IsNaN)
		if len(known) == 0 {
			nan := math.NaN()
			b.least = append(b.least, nan)
			b.middle = append(b.middle, nan)
			b.most = append(b.most, nan)
			continue
		}
		slices.Sort(known)
		b.least = append(b.least, known[0])
		b.middle = append(b.middle, known[len(known)/2])
		b.most = append(b.most, known[len(known)-1])
	}
	return b
}

// chart draws bands over time, with a text for those who cannot see it.
func chart(title, unit string, times []float64, s series, whole float64) string {
	b := s.bands()
	top := 0.0
	sum := 0.0
	n := 0
	for i, v := range b.most {
		if !math.IsNaN(v) {
			top = max(top, v)
			sum += b.middle[i]
			n++
		}
	}
	if n == 0 {
		return ""
	}
	scale := cmpOr(max(top, whole), 1)
	x := func(i int) float64 {
		return (times[i] - times[0]) / cmpOr(times[len(times)-1]-times[0], 1) * chartWidth
	}
	y := func(v float64) float64 { return chartHeight - v/scale*(chartHeight-2) - 1 }
	var area, line strings.Builder
	for _, part := range parts(b.middle) {
		for i := part[0]; i < part[1]; i++ {
			fmt.Fprintf(&area, "%s%.1f %.1f", pick(i == part[0], "M", "L"), x(i), y(b.most[i]))
			fmt.Fprintf(&line, "%s%.1f %.1f", pick(i == part[0], "M", "L"), x(i), y(b.middle[i]))
		}
		for i := part[1] - 1; i >= part[0]; i-- {
			fmt.Fprintf(&area, "L%.1f %.1f", x(i), y(b.least[i]))
		}
		area.WriteString("Z")
	}
	mean := sum / float64(n)
	text := fmt.Sprintf("%s over time: the median is %s%s on average, the most is %s%s", title, number(mean), unit,
		number(top), unit)
	return fmt.Sprintf(`<figure><figcaption>%s <small>median %s%s, most %s%s</small></figcaption><svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s"><path class="band" d="%s"/><path class="line" d="%s"/></svg></figure>`,
		html.EscapeString(title), number(mean), unit, number(top), unit, chartWidth, chartHeight,
		html.EscapeString(text), area.String(), line.String()) + "\n"
}

// parts are the spans without gaps: first and last + 1.
func parts(values []float64) (all [][2]int) {
	for i := 0; i < len(values); i++ {
		if math.IsNaN(values[i]) {
			continue
		}
		first := i
		for i < len(values) && !math.IsNaN(values[i]) {
			i++
		}
		all = append(all, [2]int{first, i})
	}
	return all
}

// heat draws a row for each rank, over time, as a picture that suits dark and light: what is not
// there is transparent.
func heat(times []float64, s series, rows int, most float64) (uri string, err error) {
	high := min(rows, maxRows)
	first := times[0]
	last := times[len(times)-1]
	img := image.NewNRGBA(image.Rect(0, 0, maxColumns, high))
	at := 0
	for x := range maxColumns {
		for now := first + (last-first)*float64(x)/maxColumns; at+1 < len(times) && times[at] < now; {
			at++
		}
		column := s[at]
		for y := range high {
			from := y * rows / high
			to := max((y+1)*rows/high, y*rows/high+1)
			sum := 0.0
			n := 0
			for _, v := range column[from:min(to, len(column))] {
				if !math.IsNaN(v) {
					sum += v
					n++
				}
			}
			if n > 0 {
				part := math.Sqrt(min(1, sum/float64(n)/cmpOr(most, 1)))
				img.SetNRGBA(x, y, color.NRGBA{
					R: uint8(40 + 190*part),
					G: uint8(90 + 40*part),
					B: uint8(160 - 130*part),
					A: uint8(90 + 165*part),
				})
			}
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img); err != nil {
		return "", err
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

func cmpOr(v, otherwise float64) float64 {
	if v > 0 {
		return v
	}
	return otherwise
}

func pick(is bool, a, b string) string {
	if is {
		return a
	}
	return b
}

// number formats a number with about three digits.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
