package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJobFileRuns runs jobs that a file describes.
func TestJobFileRuns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("vars", "E2E_C=from the file\n")
	job := write("job.yaml", "np: 2\nenv: {E2E_A: one, E2E_B: two}\nenv_file: vars\nwdir: .\nprefix: rank\nparams: {cycle_time_ms: 3}\n"+
		"command: [sh, -c, 'echo $E2E_A $E2E_B $E2E_C $HOROVOD_CYCLE_TIME $(basename $PWD) $0', a b]\n")
	base := filepath.Base(dir)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"[0] one two from the file 3 " + base + " a b", "[1] one two from the file 3 " + base + " a b"}},
		{[]string{"-np", "1", "-x", "E2E_B=2"}, []string{"[0] one 2 from the file 3 " + base + " a b"}},
		{[]string{"--prefix", "none", "sh", "-c", "echo mine"}, []string{"mine", "mine"}},
	} {
		r := startIn(t, nil, []string{"GORUN_NP=3", "HOROVOD_CYCLE_TIME=8"}, append([]string{"--config-file", job}, tc.args...)...).want(0)
		if got := r.lines(); !slices.Equal(slices.Sorted(slices.Values(got)), tc.want) {
			t.Errorf("%q: %q, want %q; stderr %s", tc.args, got, tc.want, &r.err)
		}
	}
	r := start(t, nil, "bench", "allreduce", "--config-file", job, "--transport", "tcp", "--json", "--max", "8", "--time", "0.001").want(0)
	if rows := benchRows(t, r); len(rows) == 0 || rows[0].Ranks != 2 {
		t.Errorf("%+v", rows)
	}
	start(t, nil, "--config-file", write("bad.yaml", "np: 2\n\nnpp: 3\n")).want(2, "bad.yaml:3: unknown setting \"npp\"", "did you mean ")
	start(t, nil, "--config-file", write("launcher.yaml", "np: 2\nlauncher: telnet\ncommand: 'true'\n")).want(2, `launcher.yaml:2: --launcher "telnet": it must be`)
	r = start(t, nil, "--config-file", filepath.Join(dir, "launcher.yaml"), "--launcher", "ssl").want(2, `--launcher "ssl": it must be`)
	if strings.Contains(r.err.String(), "launcher.yaml") {
		t.Errorf("%s", &r.err)
	}
	start(t, nil, "--config-file", write("none.yaml", "np: 2\n")).want(2, "none.yaml names no program", "write command: ./train in it")
	start(t, nil, "--config-file", filepath.Join(dir, "gone.yaml"), "true").want(2, "gone.yaml")
	r = startPath(t, nil, binary("gorun"), nil, "--dialect", "horovodrun", "-np", "1", "--config-file", write("h.yaml", "controller: mpi\nstall_check: {enabled: false}\n"),
		"sh", "-c", "echo $HOROVOD_STALL_CHECK_DISABLE").want(0, "gorun: controller mpi is not needed: gorun starts the ranks itself, without mpirun or jsrun, and they use Gloo")
	if r.out.String() != "localhost:0: 1\n" {
		t.Errorf("%q", &r.out)
	}
}
