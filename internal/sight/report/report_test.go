package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/test/browser"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// recorded is a run of an hour in which rank 1 hangs in the middle and rank 2 fails at the end.
func recorded(ranks, points int) record.Record {
	began := time.Unix(1_800_000_000, 0).UTC()
	r := record.Record{Run: record.Run{
		Version: 1,
		ID:      "g7k2",
		Name:    "<b>train",
		Program: []string{"python", "a&b.py"},
		Size:    ranks,
		Began:   began,
		Ended:   began.Add(time.Hour),
		Code:    1,
		Cause:   "rank 2 on f1 exited with code 1",
		Last:    []string{"Error: <script>alert(1)</script>\x1b[2J"},
	}}
	for i := range points {
		p := record.Point{At: float64(i) * 3600 / float64(points), Hosts: []string{"f1"}, Host: record.Hosts{
			CPU:      []float64{50},
			Used:     []float64{30},
			Received: []int64{int64(i)},
			Sent:     []int64{5},
		}}
		for rank := range ranks {
			cpu := 1.0
			if rank == 1 && i > points/2 {
				cpu = 0
			}
			k := &p.Ranks
			k.CPU = append(k.CPU, cpu)
			k.MiB = append(k.MiB, int64(100+rank))
			k.Read = append(k.Read, 0)
			k.Write = append(k.Write, 7)
			k.Lines = append(k.Lines, int64(2*i))
			share := 60
			if rank == 1 && i > points/2 {
				share = 0
			}
			k.Ring = append(k.Ring, 2048)
			k.Share = append(k.Share, share)
		}
		r.Points = append(r.Points, p)
	}
	r.Events = []record.Event{{At: began, What: "started"},
		{At: began.Add(50 * time.Minute), What: "stacks", Text: "no rank has made progress for 10m0s",
			Stacks: "rank 1 has not come to allreduce\n\npython3\n  load (a<b.py:6)  <- rank 1\x1b[2J\n"},
		{At: began.Add(time.Hour), What: "exited", Rank: 2, Host: "f1", Text: "exited with code 1", Failed: true}}
	for rank := 3; rank < ranks; rank++ {
		r.Events = append(r.Events, record.Event{
			At:      began.Add(time.Hour),
			What:    "exited",
			Rank:    rank,
			Host:    fmt.Sprint("f", rank/8),
			Text:    "was stopped by gorun after rank 2 failed",
			Failed:  true,
			Stopped: true,
		})
	}
	return r
}

// noisy is recorded with numbers of which no two are alike, as those of real runs.
func noisy(ranks, points int) record.Record {
	r := recorded(ranks, points)
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range r.Points {
		for i := range p.Ranks.CPU {
			p.Ranks.MiB[i] += random.Int64N(1000)
			if p.Ranks.CPU[i] > 0 {
				p.Ranks.CPU[i] += random.Float64()
				p.Ranks.Share[i] -= random.IntN(30)
			}
		}
	}
	return r
}

func write(t testing.TB, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, Write(&b, runs...))
	return b.String()
}

// own returns a page without the scripts that all pages have.
func own(page string) string { return strings.Replace(page, string(chart.Scripts()), "", 1) }

func TestReport(t *testing.T) {
	text := own(write(t, Run{Record: recorded(4, 300), Loss: []Value{{1, 5}, {2, 2.5}}}))
	for _, part := range []string{"gorun: &lt;b&gt;train (g7k2)", "rank 2 on f1 exited with code 1",
		"Error: &lt;script&gt;", "<dt>Duration</dt><dd>1h0m0s", `<div class="card bad"><dt>End</dt><dd>exit code 1`,
		"<dt>In collectives</dt><dd>52.5 %", "<dd>rank 1<small>30 % of its time in collectives, usual 60 %</small>",
		"<dt>Peak memory</dt><dd>103 MiB<small>of rank 3</small>",
		`src="data:image/png;base64,`, "CPU of ranks over time: median 1 cores, most 1 cores", "Memory of hosts",
		"Time of ranks in collectives over time: median 60 %", "Where ranks wait",
		"<td>60</td><td>rank 1</td><td>0</td>", "<td>rank 1</td><td>0</td>", "<td>exited with code 1</td>",
		"prefers-color-scheme: dark", "rank 2 on f1: exited with code 1", "<span>stalls</span>",
		"<span>failures</span>", "Loss by step: 2.5 at step 2", "After 50m0s: no rank has made progress for 10m0s.",
		"rank 1 has not come to allreduce\n\npython3\n  load (a&lt;b.py:6)  &lt;- rank 1"} {
		check.That(t, strings.Contains(text, part), "no %q", part)
	}
	for _, part := range []string{"<script>", "http://", "https://", "\x1b", "NaN", "GPUs of ranks", "<b>"} {
		check.That(t, !strings.Contains(text, part), "%q is there", part)
	}
	check.That(t, strings.Count(text, `<figure class="plot">`) >= 9,
		"%d charts", strings.Count(text, `<figure class="plot">`))
}

func TestRunsAreCompared(t *testing.T) {
	second := recorded(8, 20)
	second.Run.Name = ""
	second.Run.ID = ""
	second.Run.Code = 0
	second.Run.Cause = ""
	text := own(write(t, Run{Record: recorded(4, 300)}, Run{Record: second, Name: "run2", Loss: []Value{{1, 5}}}))
	for _, part := range []string{"<td>Ranks</td><td>4</td><td>8</td>",
		"<td>End</td><td>exit code 1</td><td>exit code 0</td>", "CPU of ranks over time in 2 runs", `"name":"run2"`, "Loss by step"} {
		check.That(t, strings.Contains(text, part), "no %q", part)
	}
	check.That(t, !strings.Contains(text, "<b>"), "a name is markup")
}

// Ranks that end alike are one event, and a run of many has few.
func TestEqualEndsAreOneEvent(t *testing.T) {
	p := newPage(Run{Record: recorded(1024, 3)})
	groups := p.groups()
	must.That(t, len(groups) == 4, "%d events", len(groups))
	check.Equal(t, groups[3].text(), "1021 ranks on 128 hosts: was stopped by gorun after rank 2 failed: 3-1023")
}

func TestLossesOfOutput(t *testing.T) {
	long := "step 9 loss 9 " + strings.Repeat("x", 2*maxLossLine) + "step 10 loss 3\n"
	for text, want := range map[string][]Value{
		"step 1 loss 0.5\nnothing\nstep 2, lr 0.1, loss: 4e-1\n":  {{1, 0.5}, {2, 0.4}},
		"Epoch 1 Step=10/50 train_x Loss=1.25\nstep 10 loss 9\n":  {{10, 1.25}},
		"[1] {'step': 3, 'loss': 2.0}\n" + long + "step 4 loss 1": {{3, 2}, {9, 9}, {4, 1}},
		"step x loss 1\nstep 1 loss nan\nlossy step 1 glossary 2": nil,
	} {
		got := must.Get(Losses(strings.NewReader(text), must.Get(LossExpression(LossPattern))(t)))(t)
		check.That(t, slices.Equal(got, want), "%.40q: %v, want %v", text, got, want)
	}
	for _, pattern := range []string{"(", "step (?P<step>.*)"} {
		_, err := LossExpression(pattern)
		check.That(t, err != nil, "%q is taken", pattern)
	}
}

// A report counts each line that a rank has printed, however slowly, and however many samples there
// are.
func TestReportCountsLinesExactly(t *testing.T) {
	const every = 2 * time.Second
	for name, tt := range map[string]struct {
		samples int
		total   func(sample int) int64 // of a rank up to a sample
	}{
		"a line in 3 s":              {10, func(i int) int64 { return int64(i * 2 / 3) }},
		"a line in 100 s":            {100, func(i int) int64 { return int64(i / 50) }},
		"2 lines in 2 s":             {16, func(i int) int64 { return int64(2 * i) }},
		"all in the last moment":     {3, func(i int) int64 { return int64(i / 2 * 7) }},
		"all before the first":       {3, func(int) int64 { return 5 }},
		"one sample":                 {1, func(int) int64 { return 3 }},
		"more samples than are kept": {5001, func(i int) int64 { return int64(i) }},
	} {
		dir := filepath.Join(t.TempDir(), "record")
		began := time.Now()
		r := must.Get(record.Create(dir, record.Run{Program: []string{"p"}, Size: 1, Began: began},
			func(err error) { t.Error(err) }))(t)
		for i := range tt.samples {
			s := watch.Sample{At: began.Add(time.Duration(i) * every), Seconds: 1, Ranks: []watch.Rank{{State: "R",
				LinesTotal: tt.total(i)}}}
			if i == tt.samples-1 {
				s.Ranks[0].Exit = &watch.Exit{} // its end comes with the last sample
			}
			r.Sample(s)
		}
		r.Close("", 0, "", nil)
		all := must.Get(record.Read(dir))(t)
		want := tt.total(tt.samples - 1)
		got := collect(all).rows[0].lines
		check.That(t, got == want, "%s: %d lines, want %d", name, got, want)
	}
}

func TestReportsOfOddRuns(t *testing.T) {
	elastic := recorded(2, 3)
	elastic.Points[1].Ranks = record.Ranks{
		Rank:  []int{5},
		CPU:   []float64{1},
		MiB:   []int64{1},
		Read:  []int64{1},
		Write: []int64{1},
		Lines: []int64{1},
		GPU:   []int{50},
	}
	elastic.Points[2].Ranks = record.Ranks{}
	elastic.Points[2].Host = record.Hosts{}
	elastic.Points[2].Hosts = nil
	for name, r := range map[string]record.Record{"nothing": {}, "one point": recorded(1, 1),
		"no ranks": recorded(0, 3), "elastic": elastic} {
		text := own(write(t, Run{Record: r}))
		check.That(t, strings.HasSuffix(text, "</html>\n") && !strings.Contains(text, "NaN"), "%s: %s", name, text)
	}
	text := write(t, Run{})
	check.That(t, strings.Contains(text, "No sample"), "%v", text)
}

// The page of a large run stays small enough to load at once and to send to others.
func TestReportOfManyRanksIsSmall(t *testing.T) {
	text := write(t, Run{Record: noisy(1024, 1800)})
	check.That(t, len(text) <= 400_000, "%d bytes", len(text))
}

// A browser shows the page of 512 ranks with all charts, and has nothing to complain about.
func TestBrowserShowsTheReport(t *testing.T) {
	var losses []Value
	for i := range 500 {
		losses = append(losses, Value{float64(i), 5/(1+float64(i)/50) + .3*float64(i%7)/7})
	}
	tab := browser.OpenText(t, write(t, Run{Record: noisy(512, 1800), Loss: losses}))
	check.Equal(t, tab.Eval(`plots.length`), "12")
	check.Equal(t, tab.Eval(`document.body.textContent.includes('rank 2 on f1 exited with code 1')`), "true")
	tab.Point(".raster")
	tab.Until(`document.querySelector('.reading').textContent.startsWith('ranks 256 to 257 at 30m')`)
	tab.Eval(`window.scrollTo(0, 0)`)
	tab.Shows("report")
}

func TestBrowserShowsRuns(t *testing.T) {
	small := noisy(8, 100)
	small.Run.Name = "small"
	small.Run.ID = ""
	tab := browser.OpenText(t, write(t, Run{Record: noisy(64, 300), Name: "run1"}, Run{Record: small},
		Run{Record: recorded(4, 20), Name: "run3"}))
	check.Equal(t, tab.Eval(`plots.length`), "11")
	tab.Shows("runs")
}

// A record of more ranks than have samples takes bounded memory.
func TestReportOfManyRanksIsBounded(t *testing.T) {
	r := recorded(1, 300)
	for _, size := range []int{1, 1000, 1 << 20} {
		r.Run.Size = size
		d := collect(r)
		check.That(t, d.size == size && len(d.times) != 0 && len(d.times)*size <= maxCells,
			"%d ranks: %d columns", size, len(d.times))
	}
}

// The name of a host may be long and in the row of each of its ranks: together they are bounded.
func TestOneNameInManyRowsIsBounded(t *testing.T) {
	r := recorded(1, 2)
	r.Run.Size = 1 << 12
	host := watch.Place{Host: strings.Repeat("h", 64<<10)}
	for rank := range r.Run.Size {
		host.Ranks = append(host.Ranks, rank)
	}
	r.Run.Places = []watch.Place{host}
	text := write(t, Run{Record: r})
	check.That(t, len(text) <= 20<<20 && strings.Contains(text, " more rows left out"), "%d bytes", len(text))
}
