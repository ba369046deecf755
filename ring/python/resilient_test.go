package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// No two ranks commit different steps, and the newest is kept while one rank has it, whenever ranks
// die.
func TestLedgerSimulation(t *testing.T) {
	must.HaveTime(t)
	out := must.Run(t, exec.CommandContext(t.Context(), interpreter, script(t, "ledger_simulate.py")))
	check.That(t, strings.HasSuffix(string(out), "all right\n"), "%s", out)
}

// resilientBits returns what the ranks of a training print at its end, which must be the same bits
// on so many ranks.
func resilientBits(t *testing.T, out string, ranks int) string {
	t.Helper()
	ends := regexp.MustCompile(`(?m)rank \d+: step (\d+, bits [0-9a-f]{16})$`).FindAllStringSubmatch(out, -1)
	if len(ends) != ranks || slices.ContainsFunc(ends, func(end []string) bool { return end[1] != ends[0][1] }) {
		t.Fatalf("want the same bits on %d ranks:\n%s", ranks, out)
	}
	return ends[0][1]
}

// trainResilient trains with 4 ranks of which some die, and returns what they print.
func trainResilient(t *testing.T, c *lab.Cluster, faults string, words ...string) (out string) {
	t.Helper()
	args := append([]string{"-np", "4", "--min-np", "4", "--max-np", "4", "--prefix", "none"}, words...)
	out, code := job(t, c, append(args, newest(t), script(t, "resilient_faults.py"), t.TempDir(), faults,
		example(t, "resilient/train.py"), "--steps", "40")...)
	want := 0
	for fault := range strings.FieldsFuncSeq(faults, isComma) {
		if !strings.HasPrefix(fault, "await") {
			want++
		}
	}
	if dead := strings.Count(out, "dies: "); code != 0 || dead != want {
		t.Fatalf("exit code %d, %d ranks died:\n%s", code, dead, out)
	}
	return out
}

// A training in which ranks die ends with the bits of one in which none does.
func TestResilientTraining(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	const hosts = "f1:2,f2:2"
	want := resilientBits(t, trainResilient(t, c, "", "-H", hosts), 4)
	for _, faults := range []string{
		"forward:3:1,backward:9:0,optimizer:39:3",
		"agreement:4:2,receiver:2:2,agreement:12:0",
		"backward:7:1,backward:7:3,agreed:15:2,holder:3:0,random:20:1",
	} {
		t.Run(faults, func(t *testing.T) {
			check.Equal(t, resilientBits(t, trainResilient(t, c, faults, "-H", hosts), 4), want)
		})
	}
}

// A training ends with the same bits on any hosts, also where ranks move to another one.
func TestResilientTrainingOnOtherHosts(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	want := resilientBits(t, trainResilient(t, c, "", "-H", "f1:4"), 4)
	for _, row := range []struct{ hosts, spares, faults string }{
		{hosts: "f1:2,f2:2"},
		{hosts: "f1:3,f2:1"},
		{hosts: "f1:1,f2:1,f3:2"},
		{hosts: "f1:2,f2:2,f3:1", spares: "1", faults: "await5:4:0,backward:5:1"},
	} {
		t.Run(row.hosts, func(t *testing.T) {
			words := []string{"-H", row.hosts}
			if row.spares != "" {
				words = append(words, "--spares", row.spares)
			}
			check.Equal(t, resilientBits(t, trainResilient(t, c, row.faults, words...), 4), want)
		})
	}
}

func isComma(r rune) bool { return r == ',' }

// Without another rank in its place, those that are left go on at once with all the samples. A rank
// that comes later takes its part of them.
func TestResilientTrainingGoesOnSmaller(t *testing.T) {
	python := newest(t)
	out := strings.Join(succeed(t, nil, "-np", "3", "--min-np", "2", "-H", "localhost:3", "--prefix", "none", python,
		script(t, "resilient_faults.py"), t.TempDir(), "backward:5:1,await:8:0", example(t, "resilient/train.py"),
		"--steps", "12", "--every", "1"), "\n")
	resilientBits(t, out, 3)
	for _, want := range []string{"step 5: 3 ranks", "step 6: 2 ranks", "step 12: 3 ranks"} {
		wantEach(t, out, want, 1)
	}
}

// A rank that gives the state to others runs no code there, and takes no memory beyond that of its
// tensors.
func TestStateOfAHostileRankIsData(t *testing.T) {
	python := newest(t)
	lines := succeed(t, nil, "-np", "2", "--prefix", "none", python, script(t, "resilient_hostile.py"))
	check.Equal(t, strings.Join(lines, "|"), "all right|all right")
}

// A spare that waits at its first step takes the place of a rank that dies.
func TestResilientTrainingWithSpare(t *testing.T) {
	python := newest(t)
	train := func(faults string) string {
		return strings.Join(succeed(t, nil, "-np", "2", "--spares", "1", "-H", "localhost:3", "--prefix", "none",
			python, script(t, "resilient_faults.py"), t.TempDir(), faults, example(t, "resilient/train.py"),
			"--steps", "12"), "\n")
	}
	want := resilientBits(t, train(""), 2)
	out := train("await3:4:0,backward:5:1")
	if got := resilientBits(t, out, 2); got != want {
		t.Errorf("%s, want %s:\n%s", got, want, out)
	}
	wantEach(t, out, "receives step 5 as process 3", 1)
}

// The same program runs alone, in a job that is not elastic, and under torchrun, and says once that
// its ranks are not replaced.
func TestResilientProgramElsewhere(t *testing.T) {
	python := newest(t)
	alone := []string{python, example(t, "resilient/train.py"), "--steps", "5"}
	ranks := append([]string{filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun"), "-np", "2", "--oversubscribe"},
		alone...)
	torchrun := append([]string{filepath.Join(filepath.Dir(python), "torchrun"), "--nproc-per-node", "2", "--log-dir",
		t.TempDir()}, alone[1:]...) // its own folder of logs would stay
	for name, c := range map[string]struct {
		argv  []string
		ranks int
		why   string
	}{
		"alone":    {alone, 1, "there is one rank"},
		"gorun":    {ranks, 2, "the job is not elastic"},
		"gloo":     {append(slices.Clone(ranks), "--backend", "gloo"), 2, "the backend is gloo"},
		"torchrun": {torchrun, 2, "gorun has not started the ranks"},
	} {
		t.Run(name, func(t *testing.T) {
			out := must.Run(t, exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...))
			resilientBits(t, string(out), c.ranks)
			wantEach(t, string(out), "will not be replaced: "+c.why, 1)
		})
	}
}
