package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// torchRun returns a command that runs a script with PyTorch.
func torchRun(t *testing.T, script string, before ...string) []string {
	t.Helper()
	if err := exec.Command(python, "-c", "import torch.distributed").Run(); err != nil {
		lab.Skip(t, "needs python3-torch")
	}
	return append(before, python, script)
}

// Scripts for torchrun find each other through its variables.
func TestTorchScripts(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	hosts := []string{"--prefix", "none", "-np", "4", "-H", "f1:2,f2:2"}
	r := start(t, c, torchRun(t, testdata("torch/collectives.py"), hosts...)...).want(0)
	if n := strings.Count(r.out.String(), ": all right"); n != 4 {
		t.Errorf("%d ranks were right:\n%s", n, &r.out)
	}

	// Averaged gradients of shards equal those of all samples: every number of ranks makes the same model.
	alone := start(t, nil, append(torchRun(t, root+"/examples/torch/ddp.py", "--prefix", "none", "-np", "1"), "--epochs", "50")...).want(0)
	_, result, _ := strings.Cut(strings.TrimSpace(alone.out.String()), "of 1: ")
	r = start(t, c, append(torchRun(t, root+"/examples/torch/ddp.py", hosts...), "--epochs", "50")...).want(0)
	if n := strings.Count(r.out.String(), "of 4: "+result+"\n"); n != 4 || !strings.Contains(result, "% right, weights ") {
		t.Errorf("alone: %q; 4 ranks:\n%s", result, &r.out)
	}
}

// A rank killed during a training is named. The goal is an end within 2 s.
func TestTorchRankKilled(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	r := start(t, c, torchRun(t, testdata("torch/killed.py"), "-np", "4", "-H", "f1:2,f2:2")...)
	await(t, "the training", func() bool { return strings.Contains(r.out.String(), "0: training") })
	at := time.Now()
	r.want(137, "rank 1 on f1 was killed by signal 9")
	if took := time.Since(at); took > 10*time.Second {
		t.Errorf("over after %v", took)
	}
}

// Frameworks on top see processes that a launcher started, in Slurm too.
func TestTorchFrameworksFindTheirPlace(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	slurm := []string{"SLURM_NTASKS=7", "SLURM_PROCID=6", "SLURM_LOCALID=5", "SLURM_JOB_NAME=train", "TORCHELASTIC_RUN_ID=outer", "NODE_RANK=3"}
	lab.Need(t, "python3")
	r := startIn(t, c, slurm, "--prefix", "none", "-np", "3", "-H", "f1:2,f2:1", "python3", testdata("torch/environment.py")).want(0)
	got := r.lines()
	slices.Sort(got)
	want := []string{
		"torchelastic 0 3 0 deepspeed 0/2 default 0/3 False",
		"torchelastic 1 3 1 deepspeed 0/2 default 1/3 False",
		"torchelastic 2 3 0 deepspeed 1/2 default 2/3 False",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Concurrent jobs on one host get different master ports.
func TestMasterPortsDiffer(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(1)...)
	var jobs []*run
	for range 20 {
		jobs = append(jobs, start(t, c, "--prefix", "none", "-np", "1", "-H", "f1", "sh", "-c", "echo $MASTER_PORT; sleep 5"))
	}
	await(t, "the ports", func() bool {
		return !slices.ContainsFunc(jobs, func(r *run) bool { return r.out.Len() == 0 })
	})
	seen := map[string]bool{}
	for _, r := range jobs {
		seen[r.out.String()] = true
	}
	if len(seen) != len(jobs) {
		t.Errorf("%d jobs have %d ports", len(jobs), len(seen))
	}
	for _, r := range jobs {
		if code := r.wait(); code != 0 {
			t.Errorf("exit code %d: %s", code, &r.err)
		}
	}
	// A user may fix the port, for example behind a firewall.
	r := start(t, c, "--prefix", "none", "-np", "2", "-H", "f1:2", "-x", "MASTER_PORT=29400", "-x", "MASTER_ADDR=10.1.2.3", "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT").want(0)
	if want := strings.Repeat(fmt.Sprintf("10.1.2.3:%d\n", 29400), 2); r.out.String() != want {
		t.Errorf("got %q, want %q", &r.out, want)
	}
}
