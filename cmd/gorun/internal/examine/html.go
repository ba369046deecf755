package examine

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/chart"
)

const (
	maxMapped = 64 // hosts of a map; bad ones come first
	maxPairs  = 10 // pairs of hosts in the table of the worst
)

// WriteHTML writes the report as one page, with a history if there are earlier reports.
func (r Report) WriteHTML(out io.Writer, earlier []Report) error {
	title := r.Verdict
	if len(r.Bad) > 0 {
		title = "bad: " + prose.List(r.Bad)
	}
	columns, rows := r.hostRows()
	history, err := r.history(earlier)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, string(chart.Page("gorun doctor: "+title, r.cards(), r.findings(), r.pairs(), r.maps(),
		history, r.bars(), chart.Section("Hosts", "", chart.Table("Hosts", columns, rows)))))
	return err
}

func (r Report) cards() chart.HTML {
	bad := len(r.Bad)
	warnings := 0
	for _, f := range r.Findings {
		if f.Severity != doctor.Bad {
			warnings++
		}
	}
	return chart.Cards([]chart.Card{{Name: "Verdict", Value: r.Verdict, Bad: r.Verdict == "bad"},
		{Name: "Bad hosts", Value: fmt.Sprintf("%d of %d", bad, len(r.Names)), Bad: bad > 0},
		{Name: "Warnings", Value: fmt.Sprint(warnings)},
		{Name: "Examined", Value: r.Began.Format("2006-01-02"), Note: r.Began.Format("15:04")},
		{Name: "Took", Value: fmt.Sprintf("%.0f s", r.Seconds), Note: r.Level}})
}

// findings is a table of what is wrong, and what to do.
func (r Report) findings() chart.HTML {
	var rows [][]string
	for _, f := range r.Findings {
		rows = append(rows, []string{string(f.Severity), pairName(f), f.Text + off(f), f.Fix})
	}
	if len(rows) == 0 {
		return ""
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) }) // bad before warning
	return chart.Section("Findings", "", chart.Table("Findings",
		[]string{"verdict", "host", "finding", "what to do next"}, rows))
}

// mapped returns the indices of the hosts that a map shows.
func (r Report) mapped() (hosts []int) {
	named := map[string]bool{}
	for _, f := range r.Findings {
		named[f.Host] = true
		named[f.With] = true
	}
	for i := range r.Names {
		hosts = append(hosts, i)
	}
	if len(hosts) > maxMapped {
		slices.SortStableFunc(hosts, func(a, b int) int {
			nb := named[r.Names[b]]
			switch na := named[r.Names[a]]; {
			case na && !nb:
				return -1
			case nb && !na:
				return 1
			}
			return 0
		})
		hosts = hosts[:maxMapped]
		slices.Sort(hosts)
	}
	return hosts
}

// quantity is what is measured of pairs of hosts.
type quantity struct {
	title  string
	unit   chart.Unit
	of     func(l doctor.Link, back bool) float64 // returns 0 for what is unknown
	less   bool                                   // whether less is worse
	corner string                                 // title of a table for the terminal
	show   func(float64) string                   // formats a cell of that table
}

func quantities() []quantity {
	return []quantity{{"Round trips", chart.Durations(), func(l doctor.Link, _ bool) float64 { return l.RTT }, false,
		"round trip", doctor.Seconds},
		{"Bandwidth", chart.Bandwidth(), func(l doctor.Link, back bool) float64 {
			if back {
				return l.In
			}
			return l.Out
		}, true, "MB/s to", megabytes}}
}

// values returns those of all pairs, ascending.
func (q quantity) values(r Report) (values []float64) {
	for _, p := range r.directions() {
		if v := q.of(p.Link, p.back); v > 0 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// usual returns the median of all pairs, or 0.
func (q quantity) usual(r Report) float64 {
	values := q.values(r)
	if len(values) == 0 {
		return 0
	}
	return values[len(values)/2]
}

// pair is one direction of a link.
type pair struct {
	doctor.Link
	from, to int
	back     bool
}

func (r Report) directions() (all []pair) {
	for _, l := range r.Links {
		all = append(all, pair{l, l.From, l.To, false}, pair{l, l.To, l.From, true})
	}
	return all
}

// fault returns why a direction has no value, or "".
func (p pair) fault(v float64) string {
	switch {
	case p.Error != "":
		return p.Error
	case v <= 0 && p.Stalled != "":
		return "large packets do not pass"
	}
	return ""
}

// pairs is a table of the worst pairs, the worst first.
func (r Report) pairs() chart.HTML {
	if len(r.Links) == 0 {
		return ""
	}
	type row struct {
		cells []string
		worst float64 // how many times worse than usual
	}
	var rows []row
	measured := quantities()
	var usual []float64
	for _, q := range measured {
		usual = append(usual, q.usual(r))
	}
	for _, p := range r.directions() {
		at := row{cells: []string{r.Names[p.from], r.Names[p.to]}}
		for i, q := range measured {
			v := q.of(p.Link, p.back)
			times := v / usual[i]
			switch fault := p.fault(v); {
			case fault != "":
				at.cells = append(at.cells, fault, "-")
				at.worst = math.Inf(1)
			case v <= 0:
				at.cells = append(at.cells, "-", "-")
			default:
				at.cells = append(at.cells, q.unit.Format(v), chart.Number(times))
				if q.less {
					times = 1 / times
				}
				at.worst = max(at.worst, times)
			}
		}
		rows = append(rows, at)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.worst, a.worst) })
	var worst [][]string
	for _, at := range rows[:min(len(rows), maxPairs)] {
		worst = append(worst, at.cells)
	}
	return chart.Section("Worst pairs", "The worst first; times are multiples of the usual value of all pairs.",
		chart.Table("Worst pairs", []string{"from", "to", "round trip", "times", "bandwidth", "times"}, worst))
}

// maps shows all pairs by round trip and by bandwidth.
func (r Report) maps() (all chart.HTML) {
	if len(r.Links) == 0 {
		return ""
	}
	hosts := r.mapped()
	place := map[int]int{}
	var names []string
	for at, host := range hosts {
		place[host] = at
		names = append(names, r.Names[host])
	}
	note := "A row for the host that measures, or sends, and a column for the other. Without colour is as most pairs " +
		"are, and full colour four times worse or more; × is no connection."
	if len(hosts) < len(r.Names) {
		note += fmt.Sprintf(" Of %d hosts, %d are shown.", len(r.Names), len(hosts))
	}
	for _, q := range quantities() {
		usual := q.usual(r)
		step := q.unit.Step(usual)
		drawn := chart.HeatMap{
			Text:    q.title + " of all pairs",
			Corner:  step.Name,
			Rows:    names,
			Columns: names,
		}
		for _, p := range r.directions() {
			row, shown := place[p.from]
			column, also := place[p.to]
			v := q.of(p.Link, p.back)
			fault := p.fault(v)
			if !shown || !also || v <= 0 && fault == "" {
				continue
			}
			cell := chart.Cell{
				Row:    row,
				Column: column,
				Heat:   heat(v/usual, q.less),
				Value:  fmt.Sprintf("%.2g", v/step.Size),
				Text:   q.unit.Format(v),
			}
			if n := v / step.Size; n >= 10 {
				cell.Value = fmt.Sprintf("%.0f", n)
			}
			if fault != "" {
				cell.Heat = math.NaN()
				cell.Value = "×"
				cell.Text = fault
			}
			cell.Text = fmt.Sprintf("%s to %s: %s", r.Names[p.from], r.Names[p.to], cell.Text)
			drawn.Cells = append(drawn.Cells, cell)
		}
		all += chart.Section(q.title, note, drawn.HTML())
	}
	return all
}

// history shows how the network and the verdicts were in earlier examinations.
func (r Report) history(earlier []Report) (chart.HTML, error) {
	if len(earlier) == 0 {
		return "", nil
	}
	all := append(slices.Clone(earlier), r)
	slices.SortStableFunc(all, func(a, b Report) int { return a.Began.Compare(b.Began) })
	var plots chart.HTML
	for _, q := range quantities() {
		line := chart.Series{Band: true}
		for _, e := range all {
			if values := q.values(e); len(values) > 0 {
				line.Points = append(line.Points, chart.Point{
					X:    e.Began.Sub(all[0].Began).Hours() / 24,
					Y:    q.usual(e),
					Low:  values[0],
					High: values[len(values)-1],
				})
			}
		}
		drawn, err := chart.Plot{
			Title:  q.title,
			Text:   fmt.Sprintf("%s in %d examinations; the table below has the numbers", q.title, len(all)),
			X:      chart.Axis{Name: "days", Unit: chart.In("")},
			Y:      chart.Axis{Unit: q.unit, Include: []float64{0}},
			Series: []chart.Series{line},
		}.Figure()
		if err != nil {
			return "", err
		}
		plots += drawn
	}
	var rows [][]string
	for _, e := range slices.Backward(all) {
		row := []string{e.Began.Format("2006-01-02 15:04"), e.Verdict, fmt.Sprint(len(e.Names)), prose.List(e.Bad)}
		for _, q := range quantities() {
			row = append(row, q.unit.Format(q.usual(e)))
		}
		rows = append(rows, row)
	}
	return chart.Section("History", "Lines are the median of all pairs, from the first examination on; bands go from "+
		"the least to the most.", `<div class="charts">`, plots, "</div>", chart.Table("History",
		[]string{"examined", "verdict", "hosts", "bad hosts", "round trip", "bandwidth"}, rows)), nil
}

// heat rates a value, given as a multiple of the usual one, from 0 (up to a quarter worse) to 1
// (four times worse or more).
func heat(times float64, less bool) float64 {
	if less {
		times = 1 / max(times, 1e-9)
	}
	return min(max(math.Log2(max(times, 1e-9))-0.3, 0)/1.7, 1)
}

func (r Report) bars() (all chart.HTML) {
	totals := doctor.Totals(r.Measured)
	for _, b := range []struct {
		title string
		of    func(i int, h doctor.Host) (float64, string)
	}{
		{"Memory speed", func(_ int, h doctor.Host) (float64, string) {
			if h.Speed == nil {
				return 0, ""
			}
			return h.Speed.Copy, fmt.Sprintf("%.1f GB/s", h.Speed.Copy/1e9)
		}},
		{"Processor speed", func(_ int, h doctor.Host) (float64, string) {
			if h.Speed == nil {
				return 0, ""
			}
			return h.Speed.Flops, fmt.Sprintf("%.1f Gflop/s", h.Speed.Flops/1e9)
		}},
		{"Sending", func(i int, _ doctor.Host) (float64, string) {
			return totals[i].Out, megabytes(totals[i].Out) + " MB/s"
		}},
		{"Receiving", func(i int, _ doctor.Host) (float64, string) {
			return totals[i].In, megabytes(totals[i].In) + " MB/s"
		}},
		{"Round trip", func(i int, _ doctor.Host) (float64, string) {
			return totals[i].RTT, doctor.Seconds(totals[i].RTT)
		}},
		{"Login", func(_ int, h doctor.Host) (float64, string) {
			if h.Login == nil {
				return 0, ""
			}
			return h.Login.Seconds, doctor.Seconds(h.Login.Seconds)
		}},
	} {
		var drawn []chart.Bar
		for i, name := range r.Names {
			v, text := b.of(i, r.Hosts[name])
			if v <= 0 {
				text = "-"
			}
			drawn = append(drawn, chart.Bar{Name: name, Value: v, Text: text})
		}
		if svg := chart.Bars(b.title+" of each host. The table has the numbers.", drawn); svg != "" {
			all += chart.Format(`<figure class="bars"><figcaption>%s</figcaption>%s</figure>`+"\n", b.title, svg)
		}
	}
	if all == "" {
		return ""
	}
	return chart.Section("Numbers of each host", "", `<div class="charts">`, all, "</div>")
}

// hostRows returns the columns and cells of the table of hosts.
func (r Report) hostRows() (columns []string, rows [][]string) {
	columns = append(strings.Fields("host login cores memory kernel python torch nccl driver"), "round trip",
		"sends MB/s", "receives MB/s", "lost", "clock")
	totals := doctor.Totals(r.Measured)
	for i, name := range r.Names {
		h := r.Hosts[name]
		row := []string{name, "-"}
		if h.Login != nil {
			row[1] = doctor.Seconds(h.Login.Seconds)
		}
		if f := h.Facts; f != nil {
			row = append(row, fmt.Sprint(f.Cores), prose.Size(f.Memory), f.Kernel, f.Versions["python"],
				f.Versions["torch"], f.Versions["nccl"], f.Versions["driver"])
		} else {
			row = append(row, "-", "-", "-", "-", "-", "-", "-")
		}
		rows = append(rows, append(row, netColumns(totals[i])...))
	}
	return columns, rows
}
