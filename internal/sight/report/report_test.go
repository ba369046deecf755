package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
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
		{At: began.Add(time.Hour), What: "exited", Rank: 2, Host: "f1", Text: "exited with code 1"}}
	return r
}

func write(t testing.TB, r record.Record) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, Write(&b, r))
	return b.String()
}

func TestReport(t *testing.T) {
	text := write(t, recorded(4, 300))
	for _, part := range []string{"gorun: &lt;b&gt;train (g7k2)", "rank 2 on f1 exited with code 1",
		"Error: &lt;script&gt;", "1h0m0s", "<dt>Exit code</dt><dd>1</dd>",
		`src="data:image/png;base64,`, "CPU of ranks over time: the median is 1 cores on average", "Memory of hosts",
		"Time of ranks in collectives over time: the median is 60 % on average", "Where ranks wait",
		"<td>60</td><td>rank 1</td><td>0</td>", "<td>rank 1</td><td>0</td>", "<td>exited with code 1</td>",
		"prefers-color-scheme: dark", "rank 2 on f1: exited with code 1",
		"After 50m0s: no rank has made progress for 10m0s.",
		"rank 1 has not come to allreduce\n\npython3\n  load (a&lt;b.py:6)  &lt;- rank 1"} {
		check.That(t, strings.Contains(text, part), "no %q", part)
	}
	for _, part := range []string{"<script", "http://", "https://", "\x1b", "NaN", "GPUs of ranks", "<b>"} {
		check.That(t, !strings.Contains(text, part), "%q is there", part)
	}
	if n := strings.Count(text, `role="img" aria-label="`); n != strings.Count(text, "<svg") || n < 8 {
		t.Errorf("%d charts", n)
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
		if got := collect(all).rows[0].lines; got != want {
			t.Errorf("%s: %d lines, want %d", name, got, want)
		}
	}
}

// Every element that is opened is closed, so that browsers and screen readers see the same
// structure.
func TestReportIsWellFormed(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(strings.Replace(write(t, recorded(3, 50)), "<!doctype html>", "", 1)))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
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
		if text := write(t, r); !strings.HasSuffix(text, "</html>\n") || strings.Contains(text, "NaN") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text := write(t, record.Record{}); !strings.Contains(text, "No sample") {
		t.Error(text)
	}
}

// The page of a large run stays small enough to load at once.
func TestReportOfManyRanksIsSmall(t *testing.T) {
	text := write(t, recorded(512, 1800))
	check.That(t, len(text) <= 1<<20, "%d bytes", len(text))
}

// A browser shows the page of 512 ranks with all charts, and has nothing to complain about.
func TestBrowserShowsTheReport(t *testing.T) {
	lab.Need(t, "chromium")
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	must.OK(t, os.WriteFile(name, []byte(write(t, recorded(512, 1800))), 0o600))
	browser := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+dir+
		"/profile", "--enable-logging=stderr", "--dump-dom", "file://"+name)
	var dom, log bytes.Buffer
	browser.Stdout = &dom
	browser.Stderr = &log
	if err := browser.Run(); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	if strings.Contains(log.String(), "CONSOLE") || strings.Count(dom.String(), "<svg") < 8 ||
		!strings.Contains(dom.String(), "rank 2 on f1 exited with code 1") {
		t.Errorf("%d charts, %s", strings.Count(dom.String(), "<svg"), &log)
	}
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
