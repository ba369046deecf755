// Package report turns records of runs into one HTML page, which needs no network.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/sight/watch/record"
)

// Run is a recorded run.
type Run struct {
	record.Record
	Name string  // name of the run among others; "": that of the record
	Loss []Value // values that the run has printed; none: unknown
	Live bool    // whether the job runs now, and browsers are to fetch the page again
}

// Write writes the report of a run, or compares several runs.
func Write(w io.Writer, runs ...Run) error {
	if len(runs) > 1 {
		return compare(w, runs)
	}
	title, body, err := single(runs[0])
	if err != nil {
		return err
	}
	document := chart.Page
	if runs[0].Live {
		document = chart.LivePage
	}
	_, err = io.WriteString(w, string(document(title, body...)))
	return err
}

// page is the report of one run that is being written.
type page struct {
	Run
	data data
}

func newPage(r Run) page { return page{Run: r, data: collect(r.Record)} }

// single returns the report of one run.
func single(r Run) (title string, body []chart.HTML, err error) {
	p := newPage(r)
	body = []chart.HTML{p.summary(), p.cause(), p.stacks(r.Events)}
	timeline, err := p.timeline()
	if err != nil {
		return "", nil, err
	}
	charts, err := charts([]page{p})
	if err != nil {
		return "", nil, err
	}
	body = append(body, timeline)
	if len(p.data.times) == 0 {
		body = append(body, chart.Format("<p>No sample was recorded: the run was too short.</p>\n"))
	} else {
		body = append(body, charts, p.phases(), p.ranks())
	}
	return "gorun: " + p.name(), append(body, p.events()), nil
}

func (p page) name() string {
	switch run := p.Record.Run; {
	case run.Name != "" && run.ID != "":
		return run.Name + " (" + run.ID + ")"
	default:
		return cmp.Or(run.Name, run.ID)
	}
}

// cause returns the reason for the job's end.
func (p page) cause() chart.HTML {
	if p.Record.Run.Cause == "" {
		return ""
	}
	body := chart.Format(`<p class="bad">%s</p>`, p.Record.Run.Cause)
	if len(p.Record.Run.Last) > 0 {
		body += pre("last lines", strings.Join(p.Record.Run.Last, "\n"))
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
		rows = append(rows, []string{strconv.Itoa(r.rank), r.host, r.end, chart.Number(r.cpu),
			chart.Number(r.memory / (1 << 20)), strconv.FormatInt(r.lines, 10)})
	}
	return table("Ranks", "", []string{"rank", "host", "end", "mean cores", "most MiB", "lines"}, rows)
}

func table(title, text string, columns []string, rows [][]string) chart.HTML {
	return chart.Section(title, text, chart.Table(title, columns, rows))
}
