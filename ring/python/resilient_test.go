package python

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
// on so many ranks. Ranks that torchrun has started may print between another's line and its end.
func resilientBits(t *testing.T, out string, ranks int) string {
	t.Helper()
	ends := regexp.MustCompile(`rank \d+: step (\d+, bits [0-9a-f]{16})`).FindAllStringSubmatch(out, -1)
	must.That(t, len(ends) == ranks && !slices.ContainsFunc(ends,
		func(end []string) bool { return end[1] != ends[0][1] }), "want the same bits on %d ranks:\n%s", ranks, out)
	return ends[0][1]
}

// trainResilient trains with 4 ranks of which some die, and returns what they print and the exit
// code.
func trainResilient(t *testing.T, c *lab.Cluster, hosts []string, faults string, arg ...string) (
	out string, code int) {
	t.Helper()
	args := append([]string{"-np", "4", "--min-np", "4", "--max-np", "4", "--prefix", "none"}, hosts...)
	program := "train.py"
	if strings.HasSuffix(arg[0], ".py") {
		program = arg[0]
		arg = arg[1:]
	}
	args = append(args, newest(t), script(t, "resilient_faults.py"), t.TempDir(), faults,
		example(t, "resilient/"+program))
	out, code = job(t, c, append(args, arg...)...)
	want := 0
	for fault := range strings.FieldsFuncSeq(faults, isComma) {
		if !strings.HasPrefix(fault, "await") {
			want++
		}
	}
	dead := strings.Count(out, "dies: ")
	must.That(t, dead == want, "exit code %d, %d ranks died:\n%s", code, dead, out)
	return out, code
}

// trainedBits trains and returns the bits of all ranks at the end.
func trainedBits(t *testing.T, c *lab.Cluster, hosts []string, faults string, arg ...string) string {
	t.Helper()
	out, code := trainResilient(t, c, hosts, faults, arg...)
	check.That(t, code == 0, "exit code %d:\n%s", code, out)
	return resilientBits(t, out, 4)
}

// keepWarm keeps hosts with a Python that has imported PyTorch. The jobs of the test fork their
// ranks from it, which spares each new rank seconds.
func keepWarm(t *testing.T, c *lab.Cluster, hosts ...string) {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(newest(t))+":"+os.Getenv("PATH"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // where this gorun up is the only one
	up := append(hosts, "--preload", "numpy,torch,torch.distributed.fsdp")
	out, code := run(t, gorun(t.Context(), c, "up", up...))
	must.That(t, code == 0, "gorun up: exit code %d\n%s", code, out)
	t.Cleanup(func() {
		out, code := run(t, gorun(context.Background(), nil, "down"))
		check.That(t, code == 0, "gorun down: exit code %d\n%s", code, out)
	})
}

// A training in which ranks die ends with the bits of one in which none does.
func TestResilientTraining(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	hosts := []string{"-H", "f1:2,f2:2"}
	keepWarm(t, c, hosts...)
	for _, of := range []struct {
		name   string
		args   []string
		faults []string
	}{
		{"replicated", []string{"--steps", "40"}, []string{
			"forward:3:1,backward:9:0,optimizer:39:3",
			"agreement:4:2,receiver:2:2,holder:3:0,agreement:12:0",
			"backward:7:1,backward:7:3,agreed:15:2,holder:3:0,random:20:1",
			"exchange:1:1,exchange:2:1",
		}},
		{"of images", []string{"images.py", "--steps", "40"}, []string{"backward:7:1,optimizer:15:0,random:20:3"}},
		{"replicated and compared", []string{"--steps", "20", "--check", "1"}, []string{"flip:7:2,flip:13:0"}},
		// Rank 2 has the copy of rank 0, and 3 that of 1.
		{"sharded", []string{"--steps", "20", "--shard", "fsdp"}, []string{
			"forward:3:1,agreement:6:2,optimizer:9:0,copying:13:3",
			"agreed:4:2,receiver:2:2,backward:12:0,backward:12:1,random:15:3",
			"backward:7:0,backward:7:2,forward:13:1,holder:later:any", // the others of their hosts hold the copies
		}},
		{"sharded, with few copies", []string{"--steps", "20", "--shard", "fsdp", "--copy-every", "4"}, []string{
			"backward:7:1,agreed:11:2,optimizer:19:0",
		}},
		// Ranks 0 and 2 have one shard, and 1 and 3 the other.
		{"sharded and replicated", []string{"--steps", "20", "--shard", "hsdp"}, []string{
			"forward:3:1,receiver:later:any,backward:9:0,backward:9:3,optimizer:15:2",
		}},
	} {
		t.Run(of.name, func(t *testing.T) {
			want := trainedBits(t, c, hosts, "", of.args...)
			for _, faults := range of.faults {
				t.Run(faults, func(t *testing.T) {
					check.Equal(t, trainedBits(t, c, hosts, faults, of.args...), want)
				})
			}
		})
	}
}

// A job that has lost its state, or a shard of it with its copy, ends, and names what is lacking.
func TestLostStateEndsTheJob(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(4)...)
	all := "agreed:7:0,agreed:7:1,agreed:7:2,agreed:7:3"
	for _, row := range []struct{ name, flags, faults, arg, want string }{
		{"shard", "-H f1:1,f2:1,f3:1,f4:1", "backward:7:0,backward:7:1", "--shard fsdp",
			"the shard of rank 0, or with a copy of it: start the job again, from a checkpoint if there is one\n"},
		{"replicas of a shard", "-H f1:1,f2:1,f3:1,f4:1", "backward:7:0,backward:7:2", "--shard hsdp",
			"from a checkpoint if there is one. Resilient(copies=1) keeps a copy"},
		{"all ranks", "-H f1:1,f2:1,f3:1,f4:1", all, "",
			"no rank that has the job's state is left"},
		{"all but a spare", "-H f1:1,f2:1,f3:1,f4:2 --spares 1", "await5:4:0," + all, "",
			"no rank that has the job's state is left"},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := append([]string{"--steps", "20"}, strings.Fields(row.arg)...)
			out, code := trainResilient(t, c, strings.Fields(row.flags), row.faults, args...)
			check.That(t, code != 0 && strings.Contains(out, row.want), "exit code %d\n%s", code, out)
		})
	}
}

// Replicas of which none has the bits of most end the job, which names them.
func TestReplicasWithoutAMajorityEndTheJob(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	out, code := trainResilient(t, c, []string{"-H", "f1:2,f2:2"}, "flip:7:2", "--steps", "20", "--shard", "hsdp",
		"--check", "1")
	check.That(t, code != 0 && strings.Contains(out, "the ranks 0, 2 have different parameters"), "exit code %d\n%s",
		code, out)
}

// Where that is to be a warning, one rank gives it, and the training goes on.
func TestReplicasWithoutAMajorityAreWarnedOf(t *testing.T) {
	out := strings.Join(trainAlike(t, "2", "flip:3:1", "6", "1"), "\n")
	for _, want := range []string{"after step 4 the ranks 0, 1 have different parameters, and none has those of most",
		"rank 0: step 6, bits", "rank 1: step 6, bits"} {
		wantEach(t, out, want, 1)
	}
}

// A spare takes the place of a rank that is slow for long, and the bits are the same.
func TestSlowRankIsReplaced(t *testing.T) {
	must.HaveTime(t)
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	args := []string{"--steps", "500"}
	want := trainedBits(t, c, []string{"-H", "f1:2,f2:2"}, "", args...)
	hosts := []string{"-H", "f1:2,f2:2,f3:1", "--spares", "1", "--replace-slow", "2"}
	out, code := trainResilient(t, c, hosts, "await5:4:0,slow:5:1", args...)
	check.That(t, code == 0 && resilientBits(t, out, 4) == want, "exit code %d, want %s\n%s", code, want, out)
	wantEach(t, out, "times as long as the others: a spare takes its place", 1)
}

// Of a state that has changed little, a copy takes the changes. Its memory outlives its process.
func TestCopiesTakeWhatHasChanged(t *testing.T) {
	python := newest(t)
	lines := succeed(t, nil, "-np", "2", "--prefix", "none", python, script(t, "copies.py"))
	check.Equal(t, strings.Join(lines, "|"), "all right|all right")
}

// Decisions about replicas are those of most of them.
func TestReplicasAreJudgedByTheMajority(t *testing.T) {
	out := must.Run(t, exec.CommandContext(t.Context(), newest(t), script(t, "checks.py")))
	check.Equal(t, string(out), "all right\n")
}

// A training ends with the same bits on any hosts, also where ranks move to another one.
func TestResilientTrainingOnOtherHosts(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	want := trainedBits(t, c, []string{"-H", "f1:4"}, "", "--steps", "40")
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
			check.Equal(t, trainedBits(t, c, words, row.faults, "--steps", "40"), want)
		})
	}
}

func isComma(r rune) bool { return r == ',' }

// trainAlike runs resilient_alike.py on this machine, as np ranks of which two may be left.
func trainAlike(t *testing.T, np, faults string, arg ...string) []string {
	t.Helper()
	args := []string{"-np", np, "--min-np", "2", "-H", "localhost:" + np, "--prefix", "none", newest(t),
		script(t, "resilient_faults.py"), t.TempDir(), faults, script(t, "resilient_alike.py")}
	return succeed(t, nil, append(args, arg...)...)
}

// Without another rank in its place, those that are left go on at once with all the samples. A rank
// that comes later takes its part of them. The parameters are then the same but for rounding.
func TestResilientTrainingGoesOnSmaller(t *testing.T) {
	parameters := func(out string) (values []float64) {
		t.Helper()
		line := regexp.MustCompile(`(?m)^parameters (.*)$`).FindStringSubmatch(out)
		must.That(t, line != nil, "no parameters:\n%s", out)
		for word := range strings.FieldsSeq(line[1]) {
			values = append(values, must.Get(strconv.ParseFloat(word, 64))(t))
		}
		return values
	}
	want := parameters(strings.Join(trainAlike(t, "3", "", "12"), "\n"))
	out := strings.Join(trainAlike(t, "3", "backward:5:1,await:8:0", "12"), "\n")
	resilientBits(t, out, 3)
	for _, want := range []string{"step 5: 3 ranks", "step 6: 2 ranks", "step 12: 3 ranks"} {
		wantEach(t, out, want, 1)
	}
	got := parameters(out)
	alike := slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	check.That(t, alike, "parameters %v, want %v:\n%s", got, want, out)
}

// A rank that gives the state to others runs no code there, and takes no memory beyond that of its
// tensors.
func TestStateOfAHostileRankIsData(t *testing.T) {
	python := newest(t)
	lines := succeed(t, nil, "-np", "2", "--prefix", "none", python, script(t, "resilient_hostile.py"))
	check.Equal(t, strings.Join(lines, "|"), "all right|all right")
}

// Ranks that refuse what another one says end the job. Others in their place would know less, and
// believe it.
func TestRefusedStateEndsTheJob(t *testing.T) {
	out, code := job(t, nil, "-np", "3", "--min-np", "3", "-H", "localhost:3", "--prefix", "none", newest(t),
		script(t, "resilient_refused.py"), script(t, "resilient_alike.py"), "6")
	check.That(t, code == 1 && strings.Contains(out, "has ended it: rank 1 says that step 1000000 is committed"),
		"exit code %d\n%s", code, out)
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
	got := resilientBits(t, out, 2)
	check.That(t, got == want, "%s, want %s:\n%s", got, want, out)
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
