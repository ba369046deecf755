package examine

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/prose"
)

const (
	maxMapped = 128 // hosts of a map; bad ones come first
	cell      = 10.0
	margin    = 60.0 // for names
)

type (
	findingRow struct{ Severity, Who, Text, Off, Fix string }
	mapLabel   struct {
		X, Y   float64
		Turned bool
		Text   string
	}
	mapCell struct {
		X, Y  float64
		Color string
		Text  string
	}
	pairMap struct {
		Title, Text string
		Side        float64
		Labels      []mapLabel
		Cells       []mapCell
	}
	barRow struct {
		Name, Text         string
		Y, Top, Width, End float64
	}
	bars struct {
		Title  string
		Height float64
		Rows   []barRow
	}
)

// WriteHTML writes the report as one page, which needs no network and no script.
func (r Report) WriteHTML(out io.Writer) error {
	title := r.Verdict
	if len(r.Bad) > 0 {
		title = "bad: " + prose.List(r.Bad)
	}
	var m markup
	m.begin("gorun doctor: "+title, fmt.Sprintf("%s, examined on %s in %.0f s (%s)", prose.Count(len(r.Names), "host"),
		r.Began.Format("2 January 2006 15:04"), r.Seconds, r.Level))
	m.findings(r.findingRows())
	for _, drawn := range r.maps() {
		m.pairMap(drawn)
	}
	for _, drawn := range r.allBars() {
		m.bars(drawn)
	}
	m.hosts(r.hostRows())
	m.end()
	_, err := io.WriteString(out, prose.Plain(m.String()))
	return err
}

func (r Report) findingRows() (rows []findingRow) {
	for _, f := range r.Findings {
		rows = append(rows, findingRow{string(f.Severity), pairName(f), f.Text, off(f), f.Fix})
	}
	return rows
}

// mapped are the hosts of a map, by index.
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
		drawn := pairMap{Title: m.title, Text: note, Side: margin + cell*float64(len(hosts))}
		for at, host := range hosts {
			name := r.Names[host]
			if len(name) > 14 {
				name = name[:13] + "…"
			}
			middle := margin + cell*float64(at) + 7.5
			drawn.Labels = append(drawn.Labels, mapLabel{0, middle, false, name},
				mapLabel{middle, margin - 3, true, name})
		}
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
				color := heat(v/usual, m.less)
				switch {
				case l.Error != "":
					text = fmt.Sprintf("%s to %s: %s", r.Names[from], r.Names[to], l.Error)
					color = "#000"
				case v <= 0 && l.Stalled != "":
					text = fmt.Sprintf("%s to %s: large packets do not pass", r.Names[from], r.Names[to])
					color = "#000"
				case v <= 0:
					continue
				}
				drawn.Cells = append(drawn.Cells, mapCell{margin + cell*float64(column), margin + cell*float64(row),
					color, text})
			}
		}
		all = append(all, drawn)
	}
	return all
}

// heat colors a value by that of most pairs: blue up to a quarter worse, red from four times on.
func heat(times float64, less bool) string {
	if less {
		times = 1 / max(times, 1e-9)
	}
	part := min(max(math.Log2(max(times, 1e-9))-0.3, 0)/1.7, 1)
	return fmt.Sprintf("rgb(%d,%d,%d)", int(70+140*part), int(130-90*part), int(190-150*part))
}

// allBars shows numbers of each host.
func (r Report) allBars() (all []bars) {
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
		most := 0.0
		drawn := bars{Title: b.title}
		for i, name := range r.Names {
			v, _ := b.of(i, r.Hosts[name])
			most = max(most, v)
		}
		if most <= 0 {
			continue
		}
		for i, name := range r.Names {
			v, text := b.of(i, r.Hosts[name])
			if v <= 0 {
				text = "-"
			}
			if len(name) > 20 {
				name = name[:19] + "…"
			}
			top := 11 * float64(i)
			width := 230 * v / most
			drawn.Rows = append(drawn.Rows, barRow{name, text, top + 7.5, top, math.Round(width),
				math.Round(width) + 94})
		}
		drawn.Height = 11 * float64(len(r.Names))
		all = append(all, drawn)
	}
	return all
}

// hostRows are the columns and cells of the table of hosts.
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
