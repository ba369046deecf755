package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

func sortedLines(r *run) []string { return slices.Sorted(slices.Values(r.lines())) }

func TestSeveralProgramsHere(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	script := `echo $RANK/$WORLD_SIZE "$MODE" "$(pwd)" $OMPI_NUM_APP_CTX "$OMPI_APP_CTX_NUM_PROCS" "$OMPI_FIRST_RANKS"`
	r := start(t, nil, "--prefix", "%p%r ", "-np", "1", "--wdir", first, "sh", "-c", script, ":",
		"-np", "2", "-x", "MODE=w", "-wdir", second, "sh", "-c", script, ":", "-n", "1", "echo", `\:`, "x").want(0)
	want := []string{"echo3 : x", "sh0 0/4  " + first + " 3 1 2 1 0 1 3", "sh1 1/4 w " + second + " 3 1 2 1 0 1 3", "sh2 2/4 w " + second + " 3 1 2 1 0 1 3"}
	if got := sortedLines(r); !slices.Equal(got, want) || r.err.Len() > 0 {
		t.Errorf("got %q, want %q; stderr %q", got, want, &r.err)
	}
	r = start(t, nil, "--prefix", "none", "-np", "1", "true", ":", "-np", "1", "--", "echo", "a", ":", `\:`).want(0)
	if r.out.String() != "a : \\:\n" {
		t.Errorf("after --: %q", &r.out)
	}
}

func TestSeveralProgramsInOneStep(t *testing.T) {
	events := filepath.Join(t.TempDir(), "events")
	r := start(t, nil, "--display-map", "--json-events", events, "-np", "1", "true", ":", "-np", "2", "sh", "-c", "exit $((RANK % 2))").want(1,
		"3 ranks on 1 host", `rank 0: ["true"]`, `ranks 1-2: ["sh" "-c" "exit $((RANK % 2))"]`, "rank 1 (sh) on localhost exited with code 1")
	if r.out.Len() > 0 {
		t.Errorf("stdout: %s", &r.out)
	}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Program  []string
		Programs []struct {
			Program []string
			Ranks   int
		}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if err := json.Unmarshal([]byte(line), &plan); err != nil || plan.Program != nil || len(plan.Programs) != 2 || plan.Programs[1].Ranks != 2 || plan.Programs[1].Program[0] != "sh" {
		t.Errorf("%v: %s", err, line)
	}
	r = start(t, nil, "--dry-run", "--no-env", "-np", "1", "-x", "A=1", "-wdir", "/a", "true", ":", "-np", "2", "--wdir", "/b", "-x", "A=2", "-x", "B=1", "true").want(0)
	want := "program    rank 0: [\"true\"]\ndirectory  /a\nvariables  A\nprogram    ranks 1-2: [\"true\"]\ndirectory  /b\nvariables  A B\nvariables  of all programs: \n"
	if _, after, _ := strings.Cut(r.out.String(), "this machine\n"); after != want {
		t.Errorf("--dry-run:\n%s", &r.out)
	}
	r = start(t, nil, "--print-env-flags", "-np", "1", "-x", "FIRST=1", "true", ":", "-np", "1", "-x", "SECOND=2", "true").want(0)
	if !strings.HasSuffix(r.out.String(), " -e FIRST -e SECOND\n") {
		t.Errorf("--print-env-flags: %s", &r.out)
	}
}

func TestProgramsFromAFile(t *testing.T) {
	dir := t.TempDir()
	app, ranks := filepath.Join(dir, "app"), filepath.Join(dir, "ranks")
	for name, text := range map[string]string{app: "-np 1 echo one\n-np 2 -x MODE=w sh -c 'echo two $MODE'\n", ranks: "1 echo named %t %o\n* sh -c 'echo other %t %o'\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := sortedLines(start(t, nil, "--app", app).want(0)), []string{"localhost:0: one", "localhost:1: two w", "localhost:2: two w"}; !slices.Equal(got, want) {
		t.Errorf("--app: %q, want %q", got, want)
	}
	r := start(t, nil, "-n", "3", "--multi-prog", ranks).want(0)
	if got, want := sortedLines(r), []string{"localhost:0: other 0 0", "localhost:1: named 1 0", "localhost:2: other 2 1"}; !slices.Equal(got, want) {
		t.Errorf("--multi-prog: %q, want %q", got, want)
	}
}

func TestEnvironmentOfEachProgram(t *testing.T) {
	script := `echo $RANK $E2E_INHERITED $E2E_G $E2E_L $E2E_API_KEY`
	r := startIn(t, nil, []string{"E2E_INHERITED=yes", "E2E_API_KEY=secret"}, "--prefix", "none", "--dialect", "mpiexec.hydra",
		"-genv", "E2E_G", "g", "-envnone", "sh", "-c", script, ":", "-env", "E2E_L", "l", "sh", "-c", script).want(0)
	if got, want := sortedLines(r), []string{"0 g", "1 yes g l secret"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMistakesWithSeveralPrograms(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "started")
	for _, tc := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{":", "true"}, 2, []string{`no program before ":"`}},
		{[]string{"true", ":"}, 2, []string{`nothing stands after "true :"`}},
		{[]string{"-np", "2", "true", ":", "true"}, 2, []string{"true has no -np", "-np 1 true"}},
		{[]string{"-np", "1", "touch", mark, ":", "-np", "1", "nosuchprogram"}, 127, []string{"localhost", `"nosuchprogram" was not found`}},
		{[]string{"-np", "1", "touch", mark, ":", "-np", "1", "-wdir", "/no/such", "true"}, 125, []string{"true: the working directory /no/such does not exist"}},
		{[]string{"-np", "1", "touch", mark, ":", "-np", "x", "true"}, 2, []string{`-np "x"`}},
	} {
		r := start(t, nil, tc.args...).want(tc.code, tc.words...)
		if r.out.Len() > 0 {
			t.Errorf("%q: stdout %q", tc.args, &r.out)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program was started beside one that cannot be")
	}
}

func TestSeveralProgramsOverSSH(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	script := "echo $RANK $GORUN_HOSTNAME $LOCAL_RANK/$LOCAL_WORLD_SIZE $GORUN_CROSS_RANK/$GORUN_CROSS_SIZE $MODE"
	t.Run("hosts of their own", func(t *testing.T) {
		r := start(t, c, "--prefix", "none", "-np", "2", "-H", "f1:3", "sh", "-c", script, ":", "-np", "1", "-H", "f2", "-x", "MODE=w", "sh", "-c", script,
			":", "-np", "1", "-H", "f1:3", "sh", "-c", script+" last").want(0)
		want := []string{"0 f1 0/3 0/2", "1 f1 1/3 0/1", "2 f2 0/1 1/2 w", "3 f1 2/3 0/1 last"}
		if got := sortedLines(r); !slices.Equal(got, want) || besidesOneMachine(r) != "" {
			t.Errorf("got %q, want %q; stderr %q", got, want, &r.err)
		}
	})
	t.Run("the job's hosts", func(t *testing.T) {
		r := start(t, c, "-np", "1", "-H", "f1:2,f2:2", "echo", "a", ":", "-np", "3", "echo", "b").want(0)
		if got, want := sortedLines(r), []string{"f1:0: a", "f1:1: b", "f2:2: b", "f2:3: b"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("they meet", func(t *testing.T) {
		r := start(t, c, "--prefix", "none", "-np", "1", "-H", "f2", binary("allreduce"), ":", "-np", "2", "-H", "f1:2", binary("allreduce")).want(0)
		if n := strings.Count(r.out.String(), "the sum is 3\n"); n != 3 {
			t.Errorf("%d ranks have the sum: %s", n, &r.out)
		}
	})
	t.Run("a program is missing on its host", func(t *testing.T) {
		r := start(t, c, "-np", "1", "-H", "f1", "echo", "started", ":", "-np", "1", "-H", "f2", "nosuchprogram").want(127, "error: f2: ", "nosuchprogram")
		if r.out.Len() > 0 {
			t.Errorf("started: %s", &r.out)
		}
	})
}
