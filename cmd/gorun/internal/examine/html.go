package examine

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/chart"
)

const maxMapped = 128 // hosts of a map; bad ones come first

// WriteHTML writes the report as one page.
func (r Report) WriteHTML(out io.Writer) error {
	title := r.Verdict
	if len(r.Bad) > 0 {
		title = "bad: " + prose.List(r.Bad)
	}
	body := []chart.HTML{
		chart.Format("<p>%s, examined on %s in %.0f s (%s)</p>\n", prose.Count(len(r.Names), "host"),
			r.Began.Format("2 January 2006 15:04"), r.Seconds, r.Level),
		r.findings(),
	}
	for _, m := range r.maps() {
		body = append(body, m.section())
	}
	columns, rows := r.hostRows()
	body = append(body, r.bars(), chart.Section("Hosts", "", chart.Table("Hosts", columns, rows)))
	_, err := io.WriteString(out, string(chart.Page("gorun doctor: "+title, body...)))
	return err
}

func (r Report) findings() chart.HTML {
	if len(r.Findings) == 0 {
		return ""
	}
	var items chart.HTML
	for _, f := range r.Findings {
		items += chart.Format(`<li><span class="%s">%s</span> %s: %s%s`, f.Severity, f.Severity, pairName(f), f.Text,
			off(f))
		if f.Fix != "" {
			items += chart.Format(`<span class="fix">%s</span>`, f.Fix)
		}
		items += "</li>\n"
	}
	return chart.Section("Findings", "", "<ul>\n", items, "</ul>")
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

// pairMap is a heat map of all pairs of hosts.
type pairMap struct {
	title, text string
	chart.HeatMap
}

func (m pairMap) section() chart.HTML { return chart.Section(m.title, m.text, m.SVG()) }

// maps shows all pairs by round trip and by bandwidth.
func (r Report) maps() (all []pairMap) {
	if len(r.Links) == 0 {
		return nil
	}
	hosts := r.mapped()
	place := map[int]int{}
	for at, host := range hosts {
		place[host] = at
	}
	note := "A row for the host that measures, or sends, and a column for the other. Blue is as most pairs are, red " +
		"is worse, and black is no connection."
	if len(hosts) < len(r.Names) {
		note += fmt.Sprintf(" Of %d hosts, %d are shown.", len(r.Names), len(hosts))
	}
	for _, m := range []struct {
		title string
		of    func(l doctor.Link, back bool) float64
		show  func(float64) string
		less  bool // is worse
	}{
		{"Round trips", func(l doctor.Link, _ bool) float64 { return l.RTT }, seconds, false},
		{"Bandwidth", func(l doctor.Link, back bool) float64 {
			if back {
				return l.In
			}
			return l.Out
		}, func(v float64) string { return megabytes(v) + " MB/s" }, true},
	} {
		var values []float64
		for _, l := range r.Links {
			for _, back := range []bool{false, true} {
				if v := m.of(l, back); v > 0 {
					values = append(values, v)
				}
			}
		}
		usual := 1.0
		if len(values) > 0 {
			slices.Sort(values)
			usual = values[len(values)/2]
		}
		drawn := pairMap{title: m.title, text: note}
		drawn.Text = m.title + ". The table of hosts has the numbers."
		for _, host := range hosts {
			drawn.Rows = append(drawn.Rows, r.Names[host])
		}
		drawn.Columns = drawn.Rows
		for _, l := range r.Links {
			for _, back := range []bool{false, true} {
				from := l.From
				to := l.To
				if back {
					from, to = to, from
				}
				row, shown := place[from]
				column, also := place[to]
				if !shown || !also {
					continue
				}
				v := m.of(l, back)
				text := fmt.Sprintf("%s to %s: %s", r.Names[from], r.Names[to], m.show(v))
				heat := heat(v/usual, m.less)
				switch {
				case l.Error != "":
					text = fmt.Sprintf("%s to %s: %s", r.Names[from], r.Names[to], l.Error)
					heat = math.NaN()
				case v <= 0 && l.Stalled != "":
					text = fmt.Sprintf("%s to %s: large packets do not pass", r.Names[from], r.Names[to])
					heat = math.NaN()
				case v <= 0:
					continue
				}
				drawn.Cells = append(drawn.Cells, chart.Cell{
					Row:    row,
					Column: column,
					Heat:   heat,
					Text:   text,
				})
			}
		}
		all = append(all, drawn)
	}
	return all
}

// heat rates a value, given as a multiple of the usual one, from 0 (up to a quarter worse) to 1
// (four times worse or more).
func heat(times float64, less bool) float64 {
	if less {
		times = 1 / max(times, 1e-9)
	}
	return min(max(math.Log2(max(times, 1e-9))-0.3, 0)/1.7, 1)
}

// bars shows numbers of each host.
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
		{"Round trip", func(i int, _ doctor.Host) (float64, string) { return totals[i].RTT, seconds(totals[i].RTT) }},
		{"Login", func(_ int, h doctor.Host) (float64, string) {
			if h.Login == nil {
				return 0, ""
			}
			return h.Login.Seconds, seconds(h.Login.Seconds)
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
			all += chart.Section(b.title, "", svg)
		}
	}
	return all
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
			row[1] = seconds(h.Login.Seconds)
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
