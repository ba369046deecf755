package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// testGPUs checks that the ranks of a node may use all GPUs that the job has there, however it requested them.
func (s slurmLab) testGPUs(t *testing.T) {
	seen := []string{"sh", "-c", "echo $GORUN_HOSTNAME $CUDA_VISIBLE_DEVICES"}
	for job, want := range map[string]string{
		"-N3":                         "n1|n2|n3",
		"-N3 --gpus=6":                "n1 0,1|n2 0,1|n3 0,1",
		"-N3 --gpus-per-node=1":       "n1 0|n2 0|n3 0",
		"-N3 --gres=gpu:2":            "n1 0,1|n2 0,1|n3 0,1",
		"-N2 -n3 --gpus-per-task=1":   "n1 0,1|n1 0,1|n2 0",
		"-N1 -n2 -c2 --mem-per-cpu=9": "n1|n1",
	} {
		r := s.salloc(t, job, nil, append([]string{binary("gorun"), "--prefix", "none"}, seen...)...).want(0)
		if got := strings.Join(r.sorted(), "|"); got != want {
			t.Errorf("%s: got %q, want %q", job, got, want)
		}
	}
}

// testScancel runs gorun in place of the job's shell, which Slurm would kill at once. gorun cannot promise the ranks' last
// output: scancel's SIGTERM also reaches srun, which kills its step.
func (s slurmLab) testScancel(t *testing.T) {
	mark := "E2E_SCANCEL=" + t.Name()
	id, out := s.batch(t, "-N3 -n5", "export "+mark+"; exec "+binary("gorun")+` sh -c 'trap "echo told; exit 0" TERM; echo up; while :; do sleep .05; done'`)
	awaitText(t, out, "up\n", 5)
	if n := len(lab.Processes(mark)); n < 5 {
		t.Errorf("found %d processes of the job", n)
	}
	if err := s.Command(t.Context(), "scancel", id).Run(); err != nil {
		t.Fatal(err)
	}
	s.gone(t, id)
	await(t, "the end of the job's processes", func() bool { return len(append(lab.Processes(mark), gorunProcesses()...)) == 0 })
	if !strings.Contains(out(), "gorun: stopping the job (terminated)") {
		t.Errorf("gorun was not told:\n%s", out())
	}
}

// warnedBeforeTheLimit starts a job that Slurm warns before its time limit, which takes a while, and returns its
// test. The job runs a copy of gorun, so that other tests do not count it as left behind.
func (s slurmLab) warnedBeforeTheLimit(t *testing.T) func(*testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(binary("gorun"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "gorun"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, out := s.batch(t, "-n3 --time=1 --signal=USR1@60 --partition="+s.Aside, dir+`/gorun sh -c 'trap "echo saved; exit 0" USR1; echo up; while :; do sleep .05; done'; echo code=$?`)
	return func(t *testing.T) {
		awaitText(t, out, "code=0\n", 1)
		if n := strings.Count(out(), "saved\n"); n != 3 {
			t.Errorf("%d ranks saved:\n%s", n, out())
		}
	}
}

// train is the program of docs/slurm.md and of the examples.
const train = `#!/bin/sh
echo "rank $RANK of $WORLD_SIZE on $GORUN_HOSTNAME"
[ "$1" = --checkpoint ] || exit 0
trap 'echo "rank $RANK saved"; exit 0' USR1
while :; do sleep .05; done
`

// testDocs runs docs/slurm.md, with the examples that it submits.
func (s slurmLab) testDocs(t *testing.T) {
	dir := furnished(t)
	w := world{name: "slurm", dir: dir}
	w.shell = func(ctx context.Context, _, line string) *exec.Cmd {
		cmd := s.Command(ctx, "bash", "-c", line)
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary("gorun"))+":"+os.Getenv("PATH"), "GORUN_PREFIX=")
		return cmd
	}
	w.before = func(t *testing.T, line string) {
		if strings.HasPrefix(line, "scancel ") {
			file := func() string { text, _ := os.ReadFile(filepath.Join(dir, "checkpoint.out")); return string(text) }
			awaitText(t, file, "rank ", 2)
		}
	}
	w.after = func(t *testing.T, line string) {
		if strings.HasPrefix(line, "sbatch ") && !strings.Contains(line, "checkpoint") || strings.HasPrefix(line, "scancel ") {
			s.idle(t)
		}
	}
	w.run(t)
}

// idle waits until only the background job is left.
func (s slurmLab) idle(t *testing.T) {
	t.Helper()
	await(t, "the end of the docs' jobs", func() bool {
		out, err := s.Command(context.Background(), "squeue", "-h", "-n", "train,checkpoint,parts").Output()
		return err == nil && len(strings.TrimSpace(string(out))) == 0
	})
}

// testElastic kills a rank, then ends a node's step as if the node were lost. The job goes on in its allocation.
func (s slurmLab) testElastic(t *testing.T) {
	id, env := s.allocate(t, "-N3 -n3")
	r := s.run(t, env, append([]string{binary("gorun"), "--min-np", "2", "--blacklist-cooldown-range", "1,1"}, elasticRank(t, 40)...)...)
	first := awaitEpoch(t, r, 1, 3, 20*time.Second)
	if err := syscall.Kill(first[1].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEpoch(t, r, 2, 2, 10*time.Second)
	third := awaitEpoch(t, r, 3, 3, 20*time.Second)
	lost := third[2]
	var step string
	out, err := s.Command(t.Context(), "squeue", "--steps", "--noheader", "--job", id, "--format", "%i %N").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if name, node, _ := strings.Cut(strings.TrimSpace(line), " "); node == lost.host {
			step = name
		}
	}
	if err := s.Command(t.Context(), "scancel", "--signal=KILL", step).Run(); err != nil {
		t.Fatalf("scancel step %q of %s: %v\n%s", step, lost.host, err, out)
	}
	awaitEpoch(t, r, 4, 2, 25*time.Second) // when it is sure that nothing is left there
	awaitEpoch(t, r, 5, 3, 25*time.Second)
	r.want(0, "host "+lost.host+": ")
	r.nothingLeft(15 * time.Second)
}
