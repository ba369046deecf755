package examine

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/test/browser"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// evil is what a host may say to deceive the reader of a terminal or a page.
const evil = "<script>alert(1)</script>\x1b[2J"

// A baseline without an end takes bounded memory.
func TestBaselineIsBounded(t *testing.T) {
	_, err := ReadReport("/dev/zero")
	check.That(t, err != nil && strings.Contains(err.Error(), "longer than"), "%v", err)
}

// A host that says what it should not changes nothing but its own part.
func TestHostsSpeakForThemselves(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	c := newCollector(3)
	c.take(1, 1, time.Time{}, []byte(`{"facts":{"hostname":"`+strings.ReplaceAll(evil, "\x1b", `\u001b`)+
		`","cores":-4}}`+"\nnonsense\n"))
	for _, link := range []string{`{"from":0,"to":2}`, `{"from":1,"to":1}`, `{"from":1,"to":3}`, `{"from":1,"to":-1}`,
		`{"from":1,"to":0}`, `{"from":1,"to":2,"error":"\u001b[2J"}`, `{"from":1,"to":2,"error":"again"}`} {
		c.take(1, 1, time.Time{}, []byte(`{"link":`+link+"}\n"))
	}
	c.take(1, 1, time.Time{}, []byte(`{"waited":{"from":3,"share":1}}`+"\n"+`{"waited":{"from":-1,"share":1}}`+"\n"))
	c.take(0, 1, time.Time{}, []byte(`{"waited":{"from":1,"share":0.7}}`+"\n"))
	c.take(2, 1, time.Time{}, []byte(`{"waited":{"from":1,"share":0.3}}`+"\n"))
	c.take(2, 1, time.Time{}, bytes.Repeat([]byte("x"), 3*maxAnswer))
	c.take(7, 1, time.Time{}, []byte("{}\n"))
	c.take(0, 1, time.Time{}, []byte(`{"facts":{"xids":[`+strings.Repeat("{},", maxValues)+"{}]}}\n"))
	m := doctor.Measured{Names: []string{"c", "b", "a"}, Hosts: map[string]doctor.Host{}}
	c.into(hosts, &m)
	check.That(t, len(m.Links) == 1 && m.Links[0].From == 1 && m.Links[0].To == 0 &&
		!strings.Contains(m.Links[0].Error, "\x1b"), "%+v", m.Links)
	if len(m.Links) == 1 && m.Links[0].Busy != 0.3 { // of the host that it names
		t.Errorf("%+v", m.Links)
	}
	f := m.Hosts["b"].Facts
	check.That(t, f != nil && f.Cores == 1 && !strings.Contains(f.Hostname, "\x1b") && m.Hosts["a"].Facts == nil,
		"%+v", m.Hosts)
	n := len(c.answers[2].Bytes())
	check.That(t, n <= maxAnswer, "%d bytes are kept", n)
}

// No text of a host reaches a report as it is, whichever field or key it is in.
func TestAllTextsOfHostsAreClean(t *testing.T) {
	said := probe.Line{Facts: &doctor.Facts{}}
	fill(reflect.ValueOf(said.Facts).Elem())
	link := probe.Line{Link: &doctor.Link{}}
	fill(reflect.ValueOf(link.Link).Elem())
	link.Link.From = 0
	link.Link.To = 1
	c := newCollector(2)
	for _, line := range []probe.Line{said, link} {
		text := must.Get(json.Marshal(line))(t)
		c.take(0, 1, time.Time{}, append(text, '\n'))
	}
	m := doctor.Measured{Names: []string{"a", "b"}, Hosts: map[string]doctor.Host{}}
	c.into([]hostfile.Host{{Name: "a"}, {Name: "b"}}, &m)
	must.That(t, m.Hosts["a"].Facts != nil && len(m.Links) == 1, "%+v", m)
	text := fmt.Sprintf("%+v %+v", *m.Hosts["a"].Facts, m.Links)
	check.That(t, !strings.Contains(text, "\x1b"), "%q", text)
}

// Whatever numbers a host reports, the report is JSON: its ratios of two numbers are finite.
func TestNumbersOfHostsAreFinite(t *testing.T) {
	c := newCollector(3)
	for rank, said := range []string{
		`{"facts":{"quota":1e308,"disks":[{"path":"/tmp","fsync":1e308}],"busy":[{"cpu":1e308}]}}` + "\n" +
			`{"speed":{"copy":1e308,"flops":5e-324,"share":1e-320}}` + "\n" +
			`{"link":{"from":0,"to":2,"out":1e308,"in":5e-324,"rtt":1e308,"offset":-1e308,"sent":[1,1]}}`,
		`{"facts":{"memory":9223372036854775807,"swap_used":9223372036854775807,"disks":[{"path":"/tmp","fsync":5e-324}]}}` +
			"\n" + `{"speed":{"copy":5e-324,"flops":1e308}}` + "\n" +
			`{"link":{"from":1,"to":2,"out":5e-324,"in":1e308,"rtt":5e-324,"offset":1e308,"sent":[1,1]}}`,
		`{"facts":{"disks":[{"path":"/tmp","fsync":5e-324}]}}`,
	} {
		c.take(rank, 1, time.Time{}, []byte(said+"\n"))
	}
	r := Report{Measured: doctor.Measured{Names: []string{"a", "b", "c"}, Hosts: map[string]doctor.Host{}}}
	c.into([]hostfile.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, &r.Measured)
	r.Findings = doctor.Judge(r.Measured)
	_, err := json.Marshal(r)
	check.OK(t, err)
	must.OK(t, r.WriteHTML(io.Discard, []Report{r}))
	memory := r.Hosts["b"].Facts.Memory
	check.That(t, memory > 1<<50 && memory*20 > 0, "%d bytes of memory", memory)
}

// A host makes no more findings than a sick one.
func TestListsOfHostsAreBounded(t *testing.T) {
	many := func(entry string) string { return "[" + strings.Repeat(entry+",", 5000) + entry + "]" }
	for name, entry := range map[string]string{"xids": `{"code":48}`, "disks": `{"path":"/"}`,
		"numa_memory": `{"size":1}`, "busy": `{"name":"` + strings.Repeat("x", 100) + `"}`} {
		c := newCollector(1)
		c.take(0, 1, time.Time{}, []byte(`{"facts":{"`+name+`":`+many(entry)+`}}`+"\n"))
		m := doctor.Measured{Names: []string{"a"}, Hosts: map[string]doctor.Host{}}
		c.into([]hostfile.Host{{Name: "a"}}, &m)
		must.That(t, m.Hosts["a"].Facts != nil, "%s: it is not read", name)
		findings := doctor.Judge(m)
		check.That(t, len(findings) < 2000, "%s: %d findings", name, len(findings))
		for _, f := range findings {
			check.That(t, len(f.Text) < 4096, "%s: a finding of %d bytes", name, len(f.Text))
		}
	}
}

// Of a job of probes those are blamed that have not ended, if others waited for them in vain.
func TestMissingProbesAreBlamed(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	m := doctor.Measured{Names: []string{"a", "b", "c"},
		Hosts: map[string]doctor.Host{"a": {Finished: true}, "b": {}, "c": {Finished: true}}}
	check.Equal(t, len(missing(hosts, &m)), 0)
	m.Hosts["c"] = doctor.Host{Finished: true, Alone: true}
	late := missing(hosts, &m)
	must.That(t, len(late) == 1, "%v", late)
	check.Equal(t, late[0].Host, "b")
	m.Hosts["b"] = doctor.Host{Finished: true}
	check.Equal(t, len(missing(hosts, &m)), 0)
	findings := doctor.Judge(m)
	check.That(t, len(findings) == 1 && findings[0].Host == "" && strings.Contains(findings[0].Text, "c"), "%+v",
		findings)
}

// The page of twice as many links takes twice as much work.
func TestPageTakesLinearWork(t *testing.T) {
	allocated := func(links int) float64 {
		r := Report{Measured: doctor.Measured{Names: []string{"a", "b"}}}
		for range links {
			r.Links = append(r.Links, doctor.Link{
				To:  1,
				RTT: 1e-4,
				Out: 1e9,
				In:  1e9,
			})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = r.pairs()
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few := allocated(250)
	many := allocated(1000)
	check.That(t, many < 8*few, "%.0f bytes for 250 links, %.0f for 1000", few, many)
}

// fill sets all texts in a value to evil, also those that are keys.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

func report() Report {
	r := Report{
		Version: 1,
		Verdict: "bad",
		Bad:     []string{"b"},
		Level:   "quick",
		Seconds: 5,
		Measured: doctor.Measured{Names: []string{"a", "b", "c"}, Hosts: map[string]doctor.Host{
			"a": {Finished: true, Facts: &doctor.Facts{Processor: doctor.Processor{Cores: 4}, Kernel: evil,
				Limits: map[string]uint64{"nofile": 1024}}, Speed: &doctor.Speed{Copy: 1e10, Flops: 1e9},
				Login: &doctor.Login{Seconds: 1}},
			"b": {Error: "connection refused"},
		}},
	}
	r.Findings = []doctor.Finding{{Host: "b", Severity: doctor.Bad, Kind: "unreachable", Text: evil},
		{Host: "a", With: "c", Severity: doctor.Warning, Kind: "link", Text: "far", Times: 9, Sigma: 30, Fix: "look"}}
	r.Links = []doctor.Link{{From: 0, To: 1, Error: "refused"},
		{From: 0, To: 2, RTT: 5e-3, Out: 1e8, In: 2e8, Sent: [2]int64{9, 9}}}
	return r
}

// page returns the page of a report without the scripts that all pages have.
func page(t *testing.T, r Report, earlier ...Report) string {
	t.Helper()
	var page bytes.Buffer
	must.OK(t, r.WriteHTML(&page, earlier))
	return strings.Replace(page.String(), string(chart.Scripts()), "", 1)
}

// The page is well-formed, whatever hosts say, and has a cell for each direction of each pair.
func TestPageIsSafe(t *testing.T) {
	old := report()
	old.Began = time.Unix(1_800_000_000, 0)
	text := page(t, report(), old)
	check.That(t, !strings.Contains(text, "<script>") && !strings.Contains(text, "http://"), "not safe:\n%s", text)
	check.Equal(t, strings.Count(text, `" title="`), 8, "cells, want 4 in each map")
	for decoder := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "<!doctype html>"))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
}

func TestPageHasTheWorstFirst(t *testing.T) {
	r := cluster(4)
	r.Findings = []doctor.Finding{{Host: "node01", Severity: doctor.Warning, Kind: "python", Text: "python is 3.9"},
		{Host: "node02", Severity: doctor.Bad, Kind: "bandwidth", Text: "it sends at 24 MB/s", Fix: "ethtool eth0"}}
	text := page(t, r)
	for _, part := range []string{
		"<tbody>\n<tr><td>bad</td><td>node02</td><td>it sends at 24 MB/s</td><td>ethtool eth0</td>",
		"<tbody>\n<tr><td>node02</td><td>node0", `class="h9" title="node02 to node00: `} {
		check.That(t, strings.Contains(text, part), "no %q", part)
	}
	check.That(t, !strings.Contains(text, "History"), "a history of nothing")
}

// cluster is a report of hosts of which node02 sends slowly.
func cluster(n int) Report {
	r := Report{
		Version:  1,
		Verdict:  "bad",
		Bad:      []string{"node02"},
		Level:    "default",
		Began:    time.Unix(1_800_000_000, 0).UTC(),
		Seconds:  12,
		Measured: doctor.Measured{Hosts: map[string]doctor.Host{}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		name := fmt.Sprintf("node%02d", i)
		r.Names = append(r.Names, name)
		r.Hosts[name] = doctor.Host{
			Finished: true,
			Facts:    &doctor.Facts{Processor: doctor.Processor{Cores: 64}, Kernel: "6.1.0"},
			Speed:    &doctor.Speed{Copy: 1e10 * (1 + random.Float64()), Flops: 9e9},
			Login:    &doctor.Login{Seconds: .1 + random.Float64()/9},
		}
		for j := range i {
			l := doctor.Link{
				From: j,
				To:   i,
				RTT:  1e-5 * (4 + random.Float64()),
				Out:  1e9 * (1.2 + random.Float64()/9),
				In:   1e9 * (1.2 + random.Float64()/9),
				Sent: [2]int64{9, 9},
			}
			if j == 2 {
				l.Out /= 40
			}
			if i == 2 {
				l.In /= 40
			}
			if j == 1 && i == 3 {
				l.Out = 3e8
			}
			r.Links = append(r.Links, l)
		}
	}
	r.Findings = []doctor.Finding{{Host: "node02", Severity: doctor.Bad, Kind: "bandwidth", Times: .02, Sigma: 32,
		Text: "it sends at 31 MB/s, and the others at 1.25 GB/s",
		Fix:  "look at the speed of its link and its cable: ethtool eth0 | grep Speed, tc qdisc"},
		{Host: "node00", Severity: doctor.Warning, Kind: "login",
			Text: `its shell's start files print "welcome" at login`,
			Fix:  "print only where a person reads it: [ -t 1 ] && echo ..."}}
	return r
}

// A browser shows the maps of few and of many hosts with their numbers.
func TestBrowserShowsThePage(t *testing.T) {
	for _, n := range []int{3, 64} {
		var earlier []Report
		for i := range 5 {
			e := cluster(n)
			e.Began = e.Began.AddDate(0, 0, -7*(i+1))
			e.Verdict = "ok"
			e.Bad = nil
			earlier = append(earlier, e)
		}
		var text bytes.Buffer
		must.OK(t, cluster(n).WriteHTML(&text, earlier))
		tab := browser.OpenText(t, text.String())
		check.Equal(t, tab.Eval(`document.querySelectorAll('.map td[title]').length`), fmt.Sprint(2*n*(n-1)))
		check.Equal(t, tab.Eval(`plots.length`), "2")
		tab.Shows(fmt.Sprint("doctor-", n))
	}
}

func TestVerdictComesFirst(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, report().WriteText(&out))
	first, rest, _ := strings.Cut(out.String(), "\n")
	check.That(t, first == "bad: b (3 hosts examined in 5 s)" &&
		strings.Contains(rest, "warning  a - c: far (9 times, 30 σ)\n           look\n"),
		"%s", out.String())
	for verdict, code := range map[string]int{"ok": 0, "warnings": 1, "bad": 3} {
		check.Equal(t, (Report{Verdict: verdict}).Code(), code, verdict, "exit code")
	}
}

func TestLargeReportsAreBounded(t *testing.T) {
	r := Report{Verdict: "ok"}
	r.Hosts = map[string]doctor.Host{}
	for i := range 300 {
		r.Names = append(r.Names, fmt.Sprint("host", i))
		if i > 0 {
			r.Links = append(r.Links, doctor.Link{
				From: 0,
				To:   i,
				RTT:  1e-4,
				Out:  1e9,
				In:   1e9,
			})
		}
	}
	maps := string(r.maps())
	check.Equal(t, strings.Count(maps, `scope="row"`), 2*maxMapped)
	check.Equal(t, strings.Count(maps, `scope="col"`), 2*maxMapped)
	var out strings.Builder
	err := r.pairTables(&out)
	check.That(t, err == nil && out.Len() <= 0, "%v, %d bytes", err, out.Len())
}
