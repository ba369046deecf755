package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

func TestExpand(t *testing.T) {
	values := map[byte]string{'r': "7", 'h': "f1", 'l': "0", 'j': ""}
	for pattern, want := range map[string]string{
		"out": "out", "out.%r": "out.7", "%3r-%h/%l.txt": "007-f1/0.txt", "100%%": "100%", "%%r": "%r", "": "",
		"%x": "there is no %x here", "a%": "there is no %", "%5": "there is no %5", "%j": "there is no %j here", "%99r": "there is no %99r",
	} {
		got, err := expand(pattern, values)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
}

func TestPlacesOfSavedOutput(t *testing.T) {
	plan := planOf(t, "f1:2,f2:2")
	for _, tc := range []struct {
		save savings
		want string // of ranks 1 and 2, stdout and stderr
	}{
		{savings{1: "o.%r", 2: "e.%h.%l"}, "o.1 e.f1.1 o.2 e.f2.0"},
		{savings{1: "%r", 2: "%r"}, "1 1 2 2"},
		{savings{2: "job%j_%2r"}, " job99_01  job99_02"},
		{savings{1: "/dev/null"}, "/dev/null  /dev/null "},
		{savings{1: "out.%l"}, "--stdout-file out.%l: ranks 0 and 2 would have one file"},
		{savings{2: "err"}, "--stderr-file err: ranks 0 and 1 would have one file"},
		{savings{1: "x%l", 2: "x%r"}, "--stdout-file x%l: ranks 0 and 2 would have one file"},
		{savings{1: "%s"}, "--stdout-file %s: there is no %s here"},
	} {
		places, err := tc.save.places(plan, "99")
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%s %s %s %s", places(1, 1), places(1, 2), places(2, 1), places(2, 2))
		}
		if err != nil && (!isUsage(err) || usage.Hint(err) == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.save, got, tc.want)
		}
	}
	if places, err := (savings{}).places(plan, ""); places != nil || err != nil {
		t.Error("nothing is saved, and there are places for it")
	}
}

func TestOutputGoesToFilesOfAnyName(t *testing.T) {
	dir := t.TempDir()
	const script = "echo out$RANK; echo err$RANK >&2"
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	r := start(t, nil, "-np", "2", "--stdout-file", dir+"/%h.%2r", "sh", "-c", script).want(0)
	if got := read("localhost.00") + read("localhost.01"); got != "out0\nout1\n" || r.out.Len() > 0 || strings.Count(r.err.String(), "err") != 2 {
		t.Errorf("saved %q, shown %q and %q", got, &r.out, &r.err)
	}
	r = startIn(t, nil, []string{"SLURM_JOB_ID="}, "--dialect", "srun", "-n", "2", "--launcher", "local", "-o", dir+"/all_%t.txt", "sh", "-c", script).want(0)
	if got := read("all_1.txt"); len(got) != 10 || !strings.Contains(got, "out1\n") || !strings.Contains(got, "err1\n") || r.out.Len()+r.err.Len() > 0 {
		t.Errorf("saved %q, shown %q and %q", got, &r.out, &r.err)
	}
	r = start(t, nil, "-np", "2", "-outfile-pattern", dir+"/o.%r", "--output-filename", dir+"/out", "sh", "-c",
		"[ $RANK = 0 ] || while [ ! -e $0 ]; do sleep .01; done; "+script+"; : >$0; exit $RANK", dir+"/go").want(1, "its output is in "+dir+"/out/rank.1/stderr", "err")
	if got := read("o.0") + read("o.1"); got != "out0\nout1\n" || !strings.Contains(read("out/index.json"), `"path": "`+dir+`/o.1"`) || r.out.Len() > 0 {
		t.Errorf("saved %q, shown %q", got, &r.out)
	}
}
