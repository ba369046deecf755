package flight

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// testdata/gloo.pickle was written by PyTorch 2.15 itself: rank 0 of two, with three calls of
// all_reduce by the backend gloo.
func TestDumpOfPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/gloo.pickle")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(data, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 1 || d.Groups[0].Desc != "default_pg" || d.Groups[0].Last != 3 || len(d.Groups[0].Calls) != 3 {
		t.Fatalf("%+v", d)
	}
	if c := d.Groups[0].Call(3); c.Kind != "gloo:all_reduce" || c.Shape != "1024x4 Float" ||
		!strings.HasPrefix(c.Where, "step (tmp/") || c.State != "scheduled" || c.Began <= 0 {
		t.Errorf("%+v", c)
	}
	for n := range data {
		if d, err := Parse(data[:n], time.Now()); err == nil {
			t.Fatalf("the first %d bytes of %d are read as %+v", n, len(data), d)
		}
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
		data, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Parse(data, time.Now()); err == nil {
			t.Errorf("protocol %s: %+v", protocol, d)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("the dump ran a command")
	}
}

func TestBrokenDumps(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                 "",
		"a number":                "\x80\x02K\x01.",
		"the end without a value": "\x80\x02.",
		"a length beyond its end": "\x80\x02X\xff\xff\xff\xffab.",
		"a value taken twice":     "\x80\x02K\x01\x86.",
		"a mark without an end":   "\x80\x02(K\x01",
		"no mark":                 "\x80\x02]e.",
		"a list that has a list":  "\x80\x02]]a.",
		"a key that is no string": "\x80\x02}K\x01K\x01s.",
		"an odd number of values": "\x80\x02}(K\x01u.",
		"a value not remembered":  "\x80\x02h\x07.",
		"a memo with holes":       "\x80\x02Nr\xff\xff\xff\x7f.",
		"a long number":           "\x80\x02\x8a\x09123456789.",
		"a class":                 "\x80\x02cos\nsystem\n.",
		"an object":               "\x80\x04\x8c\x02os\x8c\x06system\x93.",
		"many values":             "\x80\x02" + strings.Repeat("N", maxValues+1) + ".",
	} {
		if d, err := Parse([]byte(text), time.Now()); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if _, err := Parse([]byte("\x80\x02}X\x07\x00\x00\x00versionX\x01\x00\x00\x002sh\x00."), time.Now()); err == nil {
		t.Error("a reference before the first value is accepted")
	}
}

// Of a group's calls the last ones are kept, and those that go on.
func TestCallsThatGoOnAreKept(t *testing.T) {
	groups := map[string]*Group{}
	for n := range int64(200) {
		state := "completed"
		if n == 3 {
			state = "started"
		}
		add(groups, &dict{map[string]any{"process_group": &list{[]any{"0", "default_pg"}}, "collective_seq_id": n + 1,
			"state": state}}, time.Now())
	}
	g := groups["0"]
	if len(g.Calls) != maxCalls || g.Oldest() == nil || g.Oldest().Number != 4 || g.Last != 200 || g.Call(200) == nil ||
		g.Call(10) != nil {
		t.Errorf("%d calls, %+v", len(g.Calls), g.Calls[0])
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/gloo.pickle")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\x80\x02}X\x07\x00\x00\x00versionX\x01\x00\x00\x002s."))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := Parse(data, time.Now()); err == nil {
			d.Trim()
		}
	})
}
