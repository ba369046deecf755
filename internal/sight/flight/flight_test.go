package flight

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/pickle"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// testdata/gloo.pickle was written by PyTorch 2.15 itself: rank 0 of two, with three calls of
// all_reduce by the backend gloo.
func TestDumpOfPyTorch(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/gloo.pickle"))(t)
	d := must.Get(Parse(data, time.Now()))(t)
	must.That(t, len(d.Groups) == 1 && d.Groups[0].Desc == "default_pg" && d.Groups[0].Last == 3 &&
		len(d.Groups[0].Calls) == 3, "%+v", d)
	c := d.Groups[0].Call(3)
	check.That(t, c.Kind == "gloo:all_reduce" && c.Shape == "1024x4 Float" &&
		strings.HasPrefix(c.Where, "step (tmp/") && c.State == "scheduled" && c.Began > 0, "%+v", c)
	for n := range data {
		d, err := Parse(data[:n], time.Now())
		must.That(t, err != nil, "the first %d bytes of %d are read as %+v", n, len(data), d)
	}
}

// A dump that Python would obey is refused, whatever protocol it has.
func TestHostileDumpRunsNothing(t *testing.T) {
	lab.Need(t, "/usr/bin/python3")
	dir := t.TempDir()
	for _, protocol := range []string{"0", "1", "2", "3", "4", "5"} {
		cmd := exec.Command("/usr/bin/python3", "-c", `
import os, pickle, sys
class Attack:
    def __reduce__(self):
        return os.system, ("touch owned",)
sys.stdout.buffer.write(pickle.dumps({"version": "2.10", "entries": [Attack()]}, protocol=int(sys.argv[1])))`, protocol)
		cmd.Dir = dir
		data := must.Get(cmd.Output())(t)
		d, err := Parse(data, time.Now())
		check.That(t, err != nil, "protocol %s: %+v", protocol, d)
	}
	check.Error(os.Stat(filepath.Join(dir, "owned"))).Any(t, "the dump ran a command")
}

func TestOtherPicklesAreRefused(t *testing.T) {
	for _, text := range []string{"", "\x80\x02K\x01.", "\x80\x02}.", "\x80\x02]]a."} {
		d, err := Parse([]byte(text), time.Now())
		check.That(t, err != nil, "%q: %+v", text, d)
	}
}

// Of a group's calls the last ones are kept, and those that go on.
func TestCallsThatGoOnAreKept(t *testing.T) {
	groups := map[string]*group{}
	for n := range int64(200) {
		state := "completed"
		if n == 3 {
			state = "started"
		}
		add(groups, dict{"process_group": &pickle.List{Items: []any{"0", "default_pg"}}, "collective_seq_id": n + 1,
			"state": state})
	}
	g := groups["0"].whole(time.Now())
	if len(g.Calls) != maxCalls || g.Oldest() == nil || g.Oldest().Number != 4 || g.Last != 200 || g.Call(200) == nil ||
		g.Call(10) != nil {
		t.Errorf("%d calls, %+v", len(g.Calls), g.Calls[0])
	}
}

// A pickle may refer to one entry again and again: a dump of 2 MB had a million calls.
func TestEntriesAreBounded(t *testing.T) {
	text := func(s string) string { return "\x8c" + string(rune(len(s))) + s }
	frame := "}(" + text("filename") + text("/x/train.py") + text("name") + text("step") + "u"
	entry := "}(" + text("process_group") + "](" + text("0") + text("default_pg") + "e" +
		text("collective_seq_id") + "K\x07" + text("frames") + "]" + frame + "au"
	dump := func(references int) []byte {
		return []byte("\x80\x04}(" + text("version") + text("2.10") + text("entries") + "](" +
			entry + "\x94" + strings.Repeat("h\x00", references) + "eu.")
	}
	var parsed *Dump
	taken := func(data []byte) float64 {
		return testing.AllocsPerRun(1, func() { parsed = must.Get(Parse(data, time.Now()))(t) })
	}
	few := taken(dump(maxCalls))
	must.That(t, len(parsed.Groups) == 1 && len(parsed.Groups[0].Calls) == maxCalls, "%+v", parsed)
	check.Equal(t, parsed.Groups[0].Calls[0].Where, "step (x/train.py:0)")
	many := taken(dump(1 << 20))
	check.That(t, len(parsed.Groups[0].Calls) == maxCalls && parsed.Groups[0].Last == 7, "%+v", parsed.Groups[0])
	check.That(t, many < few+1000, "a dump of a million references took %v allocations, a small one %v", many, few)
}

// Entries that share a name of 8 MiB took a millisecond each.
func TestLongNamesTakeNoTime(t *testing.T) {
	groups := map[string]*group{}
	named := func(name string) dict { return dict{"process_group": &pickle.List{Items: []any{name}}} }
	for n := range 10 { // Go does not hash the keys of a smaller map
		add(groups, named(strconv.Itoa(n)))
	}
	long := named(strings.Repeat("x", 8<<20))
	began := time.Now()
	for range 1 << 14 {
		add(groups, long)
	}
	took := time.Since(began)
	check.That(t, len(groups) == 11 && took < 5*time.Second, "%d groups, %v", len(groups), took)
}

func FuzzParse(f *testing.F) {
	data := must.Get(os.ReadFile("testdata/gloo.pickle"))(f)
	f.Add(data)
	f.Add([]byte("\x80\x02}X\x07\x00\x00\x00versionX\x01\x00\x00\x002s."))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := Parse(data, time.Now()); err == nil {
			d.Trim()
		}
	})
}
