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
	maxRows    = 256 // rows of a map, as many as it has pixels; more ranks share rows
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

// measure is a quantity of ranks or hosts over time.
type measure struct {
	title string
	unit  chart.Unit
	of    func(data) series
	whole float64 // least end of the axis
}

func measures() []measure {
	percent := chart.In("%")
	bytes := chart.Bytes("")
	rate := chart.Bytes("/s")
	return []measure{
		{"CPU of ranks", chart.In("cores"), func(d data) series { return d.rank.cpu }, 1},
		{"Memory of ranks", bytes, func(d data) series { return d.rank.memory }, 0},
		{"Output of ranks", chart.In("lines/s"), func(d data) series { return d.rank.lines }, 0},
		{"Storage read by ranks", rate, func(d data) series { return d.rank.read }, 0},
		{"Storage written by ranks", rate, func(d data) series { return d.rank.write }, 0},
		{"GPUs of ranks", percent, func(d data) series { return d.rank.gpu }, 100},
		{"Collectives of ranks", rate, func(d data) series { return d.rank.ring }, 0},
		{"Time of ranks in collectives", percent, func(d data) series { return d.rank.share }, 100},
		{"CPU of hosts", percent, func(d data) series { return d.host.cpu }, 100},
		{"Memory of hosts", percent, func(d data) series { return d.host.memory }, 100},
		{"Networks, received by hosts", rate, func(d data) series { return d.host.in }, 0},
		{"Networks, sent by hosts", rate, func(d data) series { return d.host.out }, 0},
		{"GPUs of hosts", percent, func(d data) series { return d.host.gpu }, 100},
	}
}

// charts draws all measures over time: of one run with bands, of several a line for each.
func charts(runs []page) (chart.HTML, error) {
	var all chart.HTML
	for _, m := range measures() {
		drawn, err := m.figure(runs)
		if err != nil {
			return "", err
		}
		all += drawn
	}
	losses, err := lossFigure(runs)
	if err != nil {
		return "", err
	}
	text := "Lines are the median of all ranks, or of all hosts"
	if len(runs) == 1 {
		text += "; bands go from the least to the most"
	}
	return losses + chart.Section("Use over time", text+". Drag to zoom, double-click to see all.",
		`<div class="charts">`, all, "</div>"), nil
}

// figure draws a measure, or nothing if no run has it.
func (m measure) figure(runs []page) (chart.HTML, error) {
	end := 0.0
	var lines []chart.Series
	note := ""
	for _, r := range runs {
		s := m.of(r.data)
		if s == nil {
			continue
		}
		b := s.bands()
		line := chart.Series{Band: len(runs) == 1}
		if !line.Band {
			line.Name = r.label()
		}
		var known []float64
		for i, v := range b.middle {
			line.Points = append(line.Points, chart.Point{
				X:    r.data.times[i],
				Y:    v,
				Low:  b.least[i],
				High: b.most[i],
			})
			if !math.IsNaN(v) {
				known = append(known, v)
			}
		}
		end = max(end, r.data.end)
		lines = append(lines, line)
		note = fmt.Sprintf("median %s, most %s", m.unit.Format(mean(known)), m.unit.Format(highest(s)))
	}
	if len(lines) == 0 {
		return "", nil
	}
	text := m.title + " over time: " + note
	if len(runs) > 1 {
		note = ""
		text = fmt.Sprintf("%s over time in %d runs", m.title, len(lines))
	}
	return chart.Plot{
		Title:  m.title,
		Note:   note,
		Text:   text,
		X:      chart.Axis{Name: "time", Scale: chart.Time, Include: []float64{0, end}},
		Y:      chart.Axis{Unit: m.unit, Include: []float64{0, m.whole}},
		Series: lines,
	}.Figure()
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// heat returns the heat of ranks from 0 to end: columns of times, rows of ranks. Of ranks that
// share a row it shows the one that differs most from the median of all.
func heat(d data, s series, most float64) [][]float64 {
	rows := min(d.size, maxRows)
	last := d.times[len(d.times)-1]
	gap := (last - d.times[0]) / float64(max(len(d.times)-1, 1))
	middle := s.bands().middle
	columns := make([][]float64, maxColumns)
	at := 0
	for x := range columns {
		now := d.end * (float64(x) + .5) / maxColumns
		for at+1 < len(d.times) && d.times[at] < now {
			at++
		}
		sampled := now >= d.times[0]-gap && now <= last+gap
		for y := range rows {
			from := y * d.size / rows
			to := max((y+1)*d.size/rows, from+1)
			shown := math.NaN()
			for _, v := range s[at][from:min(to, len(s[at]))] {
				if sampled && (math.IsNaN(shown) || math.Abs(v-middle[at]) > math.Abs(shown-middle[at])) {
					shown = v
				}
			}
			columns[x] = append(columns[x], math.Sqrt(min(1, shown/cmp.Or(most, 1))))
		}
	}
	return columns
}
