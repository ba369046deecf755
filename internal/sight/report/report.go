// Package report turns a record of a run into one HTML page, which needs no network and no script.
package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/watch/record"
)

//go:embed style.css
var style string

// page is the document that is being written.
type page struct {
	b    strings.Builder
	data data
	run  record.Run
}

// Write writes the report of a record.
func Write(w io.Writer, r record.Record) error {
	p := &page{data: collect(r), run: r.Run}
	title := "gorun: " + p.name()
	p.printf("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "+
		"content=\"width=device-width, initial-scale=1\"/>"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "+
		"img-src data:\"/><link rel=\"icon\" "+
		"href=\"data:,\"/><title>%s</title>\n<style>%s</style></head>\n<body><main>\n<h1>%s</h1>\n", esc(title), style,
		esc(title))
	p.summary(r)
	p.end()
	p.stacks(r.Events)
	if len(p.data.times) == 0 {
		p.printf("<p>No sample was recorded: the run was too short.</p>\n")
	} else {
		if err := p.timeline(); err != nil {
			return err
		}
		p.charts()
		p.phases()
		p.ranks()
	}
	p.events(r.Events)
	p.printf("</main></body></html>\n")
	_, err := io.WriteString(w, p.b.String())
	return err
}

func esc(text string) string { return html.EscapeString(prose.Plain(text)) }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *page) name() string {
	switch {
	case p.run.Name != "" && p.run.ID != "":
		return p.run.Name + " (" + p.run.ID + ")"
	case p.run.Name != "":
		return p.run.Name
	}
	return p.run.ID
}

func (p *page) summary(r record.Record) {
	p.printf("<dl>")
	item := func(name, value string) { p.printf("<dt>%s</dt><dd>%s</dd>", esc(name), esc(value)) }
	item("Program", strings.Join(p.run.Program, " "))
	item("Ranks", fmt.Sprintf("%d on %s", p.run.Size, prose.Count(len(p.data.hosts), "host")))
	item("Began", p.run.Began.Format(time.RFC1123))
	switch {
	case !p.run.Ended.IsZero():
		item("Took", p.run.Ended.Sub(p.run.Began).Round(time.Second).String())
		item("Exit code", strconv.Itoa(p.run.Code))
	case r.Cut:
		item("End", "not recorded: the job runs, or its gorun was killed")
	}
	p.printf("</dl>\n")
}

// end is why the job ended.
func (p *page) end() {
	if p.run.Cause == "" {
		return
	}
	p.printf("<section class=\"cause\"><h2>Cause of the end</h2><p>%s</p>", esc(p.run.Cause))
	if len(p.run.Last) > 0 {
		p.printf("<pre tabindex=\"0\" aria-label=\"last lines\">%s</pre>", esc(strings.Join(p.run.Last, "\n")))
	}
	p.printf("</section>\n")
}

// stacks is what ranks did when they hung, or others waited long for them.
func (p *page) stacks(events []record.Event) {
	events = slices.DeleteFunc(slices.Clone(events), func(e record.Event) bool { return e.Stacks == "" })
	if len(events) == 0 {
		return
	}
	p.printf("<section><h2>Stacks of the ranks</h2>")
	const most = 3 // the last ones
	for i, e := range events[max(0, len(events)-most):] {
		p.printf("<p>After %s: %s.</p><pre tabindex=\"0\" aria-label=\"stacks %d\">%s</pre>",
			esc(at(e.At.Sub(p.run.Began).Seconds())), esc(e.Text), i+1, esc(strings.TrimRight(e.Stacks, "\n")))
	}
	p.printf("</section>\n")
}

func (p *page) timeline() error {
	d := p.data
	if d.rank.cpu == nil {
		return nil
	}
	most := 0.0
	for _, v := range d.rank.cpu.bands().most {
		if !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	uri, err := heat(d.times, d.rank.cpu, d.size, most)
	if err != nil {
		return err
	}
	p.printf("<section><h2>Ranks over time</h2><p>A row for each rank, rank 0 on top; the warmer, the more CPU, up "+
		"to %s cores. Nothing is drawn before a rank starts and after its end.</p>"+
		"<img class=\"heat\" style=\"height:%dpx\" src=\"%s\" alt=\"CPU of %d ranks over time. The tables below have "+
		"the numbers.\"/><p class=\"axis\"><span>%s</span><span>%s</span></p></section>\n",
		number(most), max(60, min(512, d.size*max(1, min(16, 240/max(1, d.size))))), uri, d.size, at(d.times[0]),
		at(d.times[len(d.times)-1]))
	return nil
}

// at formats a time of the run.
func at(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func (p *page) charts() {
	d := p.data
	p.printf("<section><h2>Use over time</h2><p>Lines are the median of all ranks, or of all hosts; bands go from " +
		"the least to the most.</p><div class=\"charts\">\n")
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
		p.b.WriteString(chart(c.title, c.unit, d.times, c.s, c.whole))
	}
	p.printf("</div></section>\n")
}

func (p *page) phases() {
	p.table("Ranks that stand out", "In each tenth of the run: the ranks with the least and the most CPU. A rank "+
		"that the others wait for often has the most, and one that hangs the least.",
		[]string{"from", "to", "median cores", "least", "cores", "most", "cores"}, func(row func(...string)) {
			p.standing(p.data.rank.cpu, row)
		})
	if p.data.rank.share == nil {
		return
	}
	p.table("Where ranks wait", "In each tenth of the run: the part of the time in which ranks were in collectives, "+
		"or waited for others to come. The rank with the least is often the one that the others wait for.",
		[]string{"from", "to", "median %", "least", "%", "most", "%"}, func(row func(...string)) {
			p.standing(p.data.rank.share, row)
		})
}

// standing writes a row for each tenth of the run.
func (p *page) standing(s series, row func(...string)) {
	for _, f := range p.data.phases(s, 10) {
		row(at(f.from), at(f.to), number(f.median), fmt.Sprint("rank ", f.least), number(f.leastIs),
			fmt.Sprint("rank ", f.most), number(f.mostIs))
	}
}

func (p *page) ranks() {
	p.table("Ranks", "", []string{"rank", "host", "end", "mean cores", "most MiB", "lines"}, func(row func(...string)) {
		for _, r := range p.data.rows {
			row(strconv.Itoa(r.rank), r.host, r.end, number(r.cpu), number(r.memory), number(float64(int(r.lines))))
		}
	})
}

func (p *page) events(all []record.Event) {
	const most = 1000
	p.table("Events", "", []string{"time", "event"}, func(row func(...string)) {
		for _, e := range all[:min(len(all), most)] {
			row(at(e.At.Sub(p.run.Began).Seconds()), strings.TrimSpace(eventText(e)))
		}
		if len(all) > most {
			row("", fmt.Sprintf("and %d more", len(all)-most))
		}
	})
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

func (p *page) table(title, text string, names []string, fill func(row func(...string))) {
	p.printf("<section><h2>%s</h2>", esc(title))
	if text != "" {
		p.printf("<p>%s</p>", esc(text))
	}
	p.printf("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>", esc(title))
	for _, name := range names {
		p.printf("<th scope=\"col\">%s</th>", esc(name))
	}
	p.printf("</tr></thead><tbody>\n")
	fill(func(cells ...string) {
		p.printf("<tr>")
		for _, c := range cells {
			p.printf("<td>%s</td>", esc(c))
		}
		p.printf("</tr>\n")
	})
	p.printf("</tbody></table></div></section>\n")
}
