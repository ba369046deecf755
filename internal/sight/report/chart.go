package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gorun/gorun/internal/sight/chart"
)

const (
	maxColumns = 240 // points of a chart, and columns of a map
	maxRows    = 512 // rows of a map; more ranks share rows
)

// series has a value of each rank or host over time; NaN is no value.
type series [][]float64

// bands are the minimum, median and maximum at each time.
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

// highest returns the highest value of s, or 0.
func highest(s series) (most float64) {
	for _, v := range s.bands().most {
		if !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	return most
}

// figure draws the bands of s over time, on an axis up to whole at least.
func figure(title, unit string, times []float64, s series, whole float64) chart.HTML {
	b := s.bands()
	line := chart.Series{Band: true}
	sum := 0.0
	n := 0
	for i, v := range b.middle {
		line.Points = append(line.Points, chart.Point{
			X:    times[i],
			Y:    v,
			Low:  b.least[i],
			High: b.most[i],
		})
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return ""
	}
	mean := chart.Number(sum/float64(n)) + unit
	most := chart.Number(highest(s)) + unit
	return chart.Plot{
		Title:  title,
		Note:   fmt.Sprintf("median %s, most %s", mean, most),
		Text:   fmt.Sprintf("%s over time: the median is %s on average, the most is %s", title, mean, most),
		X:      chart.Axis{Scale: chart.Time, Label: chart.Seconds, Include: []float64{times[0], times[len(times)-1]}},
		Y:      chart.Axis{Label: chart.Number, Include: []float64{0, whole}},
		Series: []chart.Series{line},
	}.Figure()
}

// heat returns the heat of ranks over time: columns of times, rows of ranks.
func heat(times []float64, s series, ranks int, most float64) [][]float64 {
	rows := min(ranks, maxRows)
	first := times[0]
	last := times[len(times)-1]
	columns := make([][]float64, maxColumns)
	at := 0
	for x := range columns {
		for now := first + (last-first)*float64(x)/maxColumns; at+1 < len(times) && times[at] < now; {
			at++
		}
		for y := range rows {
			from := y * ranks / rows
			to := max((y+1)*ranks/rows, from+1)
			sum := 0.0
			n := 0
			for _, v := range s[at][from:min(to, len(s[at]))] {
				if !math.IsNaN(v) {
					sum += v
					n++
				}
			}
			part := math.NaN()
			if n > 0 {
				part = math.Sqrt(min(1, sum/float64(n)/cmp.Or(most, 1)))
			}
			columns[x] = append(columns[x], part)
		}
	}
	return columns
}
