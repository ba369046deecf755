// Package report turns a record of a run into one HTML page, which needs no network and no script.
package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/sight/watch/record"
)

// page is a report that is being written.
type page struct {
	data data
	run  record.Run
}

// Write writes the report of a record.
func Write(w io.Writer, r record.Record) error {
	p := page{data: collect(r), run: r.Run}
	body := []chart.HTML{p.summary(r), p.cause(), p.stacks(r.Events)}
	if len(p.data.times) == 0 {
		body = append(body, chart.Format("<p>No sample was recorded: the run was too short.</p>\n"))
	} else {
		timeline, err := p.timeline()
		if err != nil {
			return err
		}
		body = append(body, timeline, p.charts(), p.phases(), p.ranks())
	}
	body = append(body, p.events(r.Events))
	_, err := io.WriteString(w, string(chart.Page("gorun: "+p.name(), body...)))
	return err
}

func (p page) name() string {
	switch {
	case p.run.Name != "" && p.run.ID != "":
		return p.run.Name + " (" + p.run.ID + ")"
	case p.run.Name != "":
		return p.run.Name
	}
	return p.run.ID
}

func (p page) summary(r record.Record) chart.HTML {
	item := func(name, value string) chart.HTML { return chart.Format("<dt>%s</dt><dd>%s</dd>", name, value) }
	items := item("Program", strings.Join(p.run.Program, " ")) +
		item("Ranks", fmt.Sprintf("%d on %s", p.run.Size, prose.Count(len(p.data.hosts), "host"))) +
		item("Began", p.run.Began.Format(time.RFC1123))
	switch {
	case !p.run.Ended.IsZero():
		items += item("Took", p.run.Ended.Sub(p.run.Began).Round(time.Second).String()) +
			item("Exit code", strconv.Itoa(p.run.Code))
	case r.Cut:
		items += item("End", "not recorded: the job runs, or its gorun was killed")
	}
	return "<dl>" + items + "</dl>\n"
}

// cause returns the reason for the job's end.
func (p page) cause() chart.HTML {
	if p.run.Cause == "" {
		return ""
	}
	body := chart.Format(`<p class="bad">%s</p>`, p.run.Cause)
	if len(p.run.Last) > 0 {
		body += pre("last lines", strings.Join(p.run.Last, "\n"))
	}
	return chart.Section("Cause of the end", "", body)
}

func pre(label, text string) chart.HTML {
	return chart.Format(`<pre tabindex="0" aria-label="%s">%s</pre>`, label, text)
}

// stacks shows the ranks' stacks of a hang or a long wait.
func (p page) stacks(events []record.Event) chart.HTML {
	events = slices.DeleteFunc(slices.Clone(events), func(e record.Event) bool { return e.Stacks == "" })
	if len(events) == 0 {
		return ""
	}
	const most = 3
	var body chart.HTML
	for i, e := range events[max(0, len(events)-most):] {
		body += chart.Format("<p>After %s: %s.</p>", p.since(e), e.Text) +
			pre(fmt.Sprint("stacks ", i+1), strings.TrimRight(e.Stacks, "\n"))
	}
	return chart.Section("Stacks of the ranks", "", body)
}

// since formats the time of an event since the start of the run.
func (p page) since(e record.Event) string { return chart.Seconds(e.At.Sub(p.run.Began).Seconds()) }

func (p page) timeline() (chart.HTML, error) {
	d := p.data
	if d.rank.cpu == nil {
		return "", nil
	}
	most := highest(d.rank.cpu)
	picture, err := chart.Raster(heat(d.times, d.rank.cpu, d.size, most),
		max(60, min(512, d.size*max(1, min(16, 240/max(1, d.size))))),
		fmt.Sprintf("CPU of %d ranks over time. The tables below have the numbers.", d.size))
	return chart.Section("Ranks over time", fmt.Sprintf("A row for each rank, rank 0 on top; the warmer, the more "+
		"CPU, up to %s cores. Nothing is drawn before a rank starts and after its end.", chart.Number(most)), picture,
		chart.Format(`<p class="axis"><span>%s</span><span>%s</span></p>`, chart.Seconds(d.times[0]),
			chart.Seconds(d.times[len(d.times)-1]))), err
}

func (p page) charts() chart.HTML {
	d := p.data
	var all chart.HTML
	for _, c := range []struct {
		title, unit string
		s           series
		whole       float64
	}{
		{"CPU of ranks", " cores", d.rank.cpu, 1}, {"Memory of ranks", " MiB", d.rank.memory, 0},
		{"Output of ranks", " lines/s", d.rank.lines, 0},
		{"Storage read by ranks", " KiB/s", d.rank.read, 0}, {"Storage written by ranks", " KiB/s", d.rank.write, 0},
		{"GPUs of ranks", " %", d.rank.gpu, 100},
		{"Collectives of ranks", " KiB/s", d.rank.ring, 0}, {"Time of ranks in collectives", " %", d.rank.share, 100},
		{"CPU of hosts", " %", d.host.cpu, 100}, {"Memory of hosts", " %", d.host.memory, 100},
		{"Networks, received by hosts", " KiB/s", d.host.in, 0},
		{"Networks, sent by hosts", " KiB/s", d.host.out, 0}, {"GPUs of hosts", " %", d.host.gpu, 100},
	} {
		all += figure(c.title, c.unit, d.times, c.s, c.whole)
	}
	return chart.Section("Use over time", "Lines are the median of all ranks, or of all hosts; bands go from the "+
		"least to the most.", `<div class="charts">`, all, "</div>")
}

func (p page) phases() chart.HTML {
	all := table("Ranks that stand out", "In each tenth of the run: the ranks with the least and the most CPU. A rank "+
		"that the others wait for often has the most, and one that hangs the least.",
		[]string{"from", "to", "median cores", "least", "cores", "most", "cores"}, p.standing(p.data.rank.cpu))
	if p.data.rank.share != nil {
		all += table("Where ranks wait", "In each tenth of the run: the part of the time in which ranks were in "+
			"collectives, or waited for others to come. The rank with the least is often the one that the others wait "+
			"for.",
			[]string{"from", "to", "median %", "least", "%", "most", "%"}, p.standing(p.data.rank.share))
	}
	return all
}

// standing returns a row for each tenth of the run.
func (p page) standing(s series) (rows [][]string) {
	for _, f := range p.data.phases(s, 10) {
		rows = append(rows, []string{chart.Seconds(f.from), chart.Seconds(f.to), chart.Number(f.median),
			fmt.Sprint("rank ", f.least), chart.Number(f.leastIs), fmt.Sprint("rank ", f.most), chart.Number(f.mostIs)})
	}
	return rows
}

func (p page) ranks() chart.HTML {
	var rows [][]string
	for _, r := range p.data.rows {
		rows = append(rows, []string{strconv.Itoa(r.rank), r.host, r.end, chart.Number(r.cpu), chart.Number(r.memory),
			strconv.FormatInt(r.lines, 10)})
	}
	return table("Ranks", "", []string{"rank", "host", "end", "mean cores", "most MiB", "lines"}, rows)
}

func (p page) events(all []record.Event) chart.HTML {
	const most = 1000
	var rows [][]string
	for _, e := range all[:min(len(all), most)] {
		rows = append(rows, []string{p.since(e), strings.TrimSpace(eventText(e))})
	}
	if len(all) > most {
		rows = append(rows, []string{"", fmt.Sprintf("and %d more", len(all)-most)})
	}
	return table("Events", "", []string{"time", "event"}, rows)
}

func eventText(e record.Event) string {
	switch e.What {
	case "exited":
		return fmt.Sprintf("rank %d on %s: %s", e.Rank, e.Host, e.Text)
	case "stacks":
		return "the stacks of the ranks were taken: " + e.Text
	case "straggler":
		return e.Text
	case "lost":
		return fmt.Sprintf("host %s was lost: %s", e.Host, e.Text)
	}
	return e.What + " " + e.Text
}

func table(title, text string, columns []string, rows [][]string) chart.HTML {
	return chart.Section(title, text, chart.Table(title, columns, rows))
}
