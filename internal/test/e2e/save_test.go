package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
