package srun

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

func TestFindSlurmJob(t *testing.T) {
	for _, tc := range []struct {
		env    map[string]string
		id     string
		nodes  map[string]int
		hetero bool
		err    string
	}{
		{env: map[string]string{"SLURM_JOB_NODELIST": "n1"}},
		{env: map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[08-10],x"}, id: "7",
			nodes: map[string]int{"n08": 0, "n09": 0, "n10": 0, "x": 0}},
		{env: map[string]string{"SLURM_JOBID": "7", "SLURM_NODELIST": "n1"}, id: "7", nodes: map[string]int{"n1": 0}},
		// Inside a step, srun still reaches all nodes of the job.
		{env: map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_STEP_NODELIST": "n2"},
			id: "7", nodes: map[string]int{"n1": 0, "n2": 0}},
		{env: map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a1", "SLURM_JOB_NODELIST_HET_GROUP_0": "a1",
			"SLURM_JOB_NODELIST_HET_GROUP_1": "b[1-2]"},
			id: "7", nodes: map[string]int{"a1": 0, "b1": 1, "b2": 1}, hetero: true},
		{env: map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1"}, id: "7", err: "SLURM_JOB_NODELIST"},
	} {
		job, ok, err := FindJob(environ.Lookup(tc.env))
		switch {
		case tc.err != "":
			check.That(t, err != nil && strings.Contains(err.Error(), tc.err), "%v: error %v", tc.env, err)
		case err != nil || ok != (tc.id != "") || job.ID != tc.id || !maps.Equal(job.Nodes, tc.nodes) ||
			job.Hetero != tc.hetero:
			t.Errorf("%v: %+v, %v, %v", tc.env, job, ok, err)
		}
	}
}

func TestFindStepsTellsWhereSrunIsNotMeant(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no srun
	inside := environ.Lookup(map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"})
	outside := environ.Lookup(nil)
	for name, lookup := range map[string]func(string) (string, bool){"inside": inside, "outside": outside} {
		s, err := FindSteps(false, lookup, nil)
		check.That(t, s == nil && err == nil, "%s: %v, %v", name, s, err)
	}
	_, err := FindSteps(true, inside, nil)
	check.That(t, usage.Is(err) && strings.Contains(err.Error(), "srun") && usage.Hint(err) != "", "no srun: %v", err)
	_, err = FindSteps(true, outside, nil)
	check.That(t, usage.Is(err) && strings.Contains(err.Error(), "SLURM_JOB_ID"), "no job: %v", err)
}

func TestSrunArguments(t *testing.T) {
	job := Job{ID: "7", Nodes: map[string]int{"n1": 0, "n2": 1}}
	h := &srunHost{steps: &Steps{Job: job}, node: "n2", overlap: overlapOption("... --overlap ...")}
	want := "--job-name=gorun --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=n2 --mpi=none --cpu-bind=none " +
		"--mem-bind=none " +
		"--export=ALL --kill-on-bad-exit=1 --unbuffered --input=all --chdir=/ --overlap"
	check.Equal(t, strings.Join(h.args([]string{"/a b", "-x"}), " "), want+" /a b -x")
	h.gpus = "a100:2"
	check.Equal(t, strings.Join(h.args([]string{"/x"}), " "), want+" --gpus=a100:2 /x")
	h.gpus = ""
	h.steps.Job.Hetero = true
	h.overlap = overlapOption("... --overlap ... --external-launcher ...")
	want = strings.Replace(want, "--overlap", "--external-launcher --het-group=1", 1)
	got := strings.Join(h.args([]string{".cache/x", "-x"}), " ")
	check.Equal(t, got, want+` /bin/sh -c exec "$HOME/$0" "$@" .cache/x -x`, "got")
	check.Equal(t, overlapOption("an old one"), "")
	_, err := (&Steps{Job: job}).Dial(t.Context(), hostfile.Host{Name: "n3"})
	check.That(t, usage.Is(err) && strings.Contains(err.Error(), "not a node of Slurm job 7"), "another host: %v", err)
}

func TestParseGPUs(t *testing.T) {
	text := "JobId=7 JobName=x\n   TRES=cpu=5,gres/gpu=5\n     Nodes=n[1-2] CPU_IDs=2-3 Mem=0 GRES=gpu:2(IDX:0-1)\n" +
		"     Nodes=n3 CPU_IDs=2 Mem=0 GRES=nic:1(CNT:1),gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:1)\n     Nodes=n4 " +
		"CPU_IDs=2 Mem=0 GRES=\n     Nodes=n[ GRES=gpu:1(IDX:0)\n"
	want := map[string]string{"n1": "2", "n2": "2", "n3": "a100:2,v100:1"}
	got := parseGPUs(text)
	check.That(t, maps.Equal(got, want), "got %v, want %v", got, want)
}

func TestSrunEnvironment(t *testing.T) {
	given := []string{"PATH=/bin", "LC_ALL=C", "SLURM_JOB_ID=7", "SLURM_CONF=/c", "SLURM_WORKING_CLUSTER=x",
		"SLURM_GPUS_PER_NODE=2", "SLURM_JOB_NODELIST=n1", "LD_LIBRARY_PATH=/lib:"}
	dropped := []string{"SECRET=1", "SSH_CONNECTION=x", "SLURM_LABELIO=1", "SLURM_EXPORT_ENV=NONE", "SLURM_NTASKS=4",
		"SLURM_NTASKS_PER_NODE=2", "SLURM_CPU_BIND=x",
		"SLURM_CPU_BIND_TYPE=x", "SLURM_STEP_ID=0", "SLURM_STEPID=0", "SRUN_CPUS_PER_TASK=3", "SLURM_GPUS=8",
		"SLURM_GPUS_PER_TASK=1", "SLURM_HINT=x", "SLURM_DISTRIBUTION=x", "SLURM_TRES_PER_TASK=x", "SLURM_JWT=x"}
	got := srunEnv(slices.Concat(given, dropped), func() string { return "/home/me" })
	want := slices.Concat([]string{rankenv.SlurmStep + "=1"}, given, []string{"HOME=/home/me"})
	check.Slice(t, got, want, "got")
	if got := srunEnv([]string{"HOME=/h"}, func() string {
		return "/home/me"
	}); !slices.Equal(got, []string{rankenv.SlurmStep + "=1", "HOME=/h"}) {
		t.Errorf("got %q", got)
	}
	// Steps start in /, where others have made this folder below /tmp.
	got = srunEnv([]string{"HOME=/h", "LD_LIBRARY_PATH=/lib:tmp/lib"}, homeDir)
	check.That(t, slices.Contains(got, "LD_LIBRARY_PATH=/lib"), "got %q", got)
}

func TestStepRefused(t *testing.T) {
	for said, want := range map[string]bool{
		"": false,
		"slurmstepd-n2: error: execve(): /x: No such file or directory\nsrun: error: n2: task 0: Exited with exit " +
			"code 2\n": false,
		"srun: error: n2: task 0: Killed\n": false,
		"srun: job 7 queued\nsrun: error: Unable to create step for job 7: Invalid job id specified\n": true,
		"srun: error: Slurm job 30 has expired\nsrun: Check SLURM_JOB_ID environment variable.\n":      true,
		"srun: error: Task launch for StepId=7.0 failed on node n2: " +
			"Communication connection failure\nsrun: error: x\n": true,
		"srun: fatal: no --overlap here\n":         true,
		"my program says srun: error: Unable to\n": false,
	} {
		check.Equal(t, stepRefused(said), want, said)
	}
}

// Steps wait for a free slot until earlier steps have started; a fake srun decides when.
func TestStepsStartInTurn(t *testing.T) {
	dir := t.TempDir()
	srun := filepath.Join(dir, "srun")
	script := "#!/bin/sh\ncase $1 in --help) echo --external-launcher; exit;; esac\nfor name; do :; done\n: >" + dir +
		"/began$name\nread word\necho $word\ncat >/dev/null\n"
	must.OK(t, os.WriteFile(srun, []byte(script), 0o755))
	s := New(Job{ID: "7", Nodes: map[string]int{"n1": 0}}, srun, os.Environ())
	s.slots = make(chan struct{}, 1)
	node, err := s.Dial(t.Context(), hostfile.Host{Name: "n1"})
	must.OK(t, err)
	began := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, "began"+name)); return err == nil }
	}
	in, word := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error)
	go func() { ended <- node.Run(t.Context(), []string{"/x", "1"}, in, said, io.Discard) }()
	for !began("1")() {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	err = node.Run(ctx, []string{"/x", "2"}, nil, io.Discard, io.Discard)
	check.That(t, errors.Is(err, cause) && !began("2")(), "the second did not wait for its turn: %v", err)
	fmt.Fprintln(word, "here")
	line, err := bufio.NewReader(out).ReadString('\n')
	must.That(t, line == "here\n", "%q, %v", line, err)
	// The first continues, and the third starts.
	err = node.Run(t.Context(), []string{"/x", "3"}, nil, io.Discard, io.Discard)
	check.That(t, err == nil && began("3")(), "the third: %v", err)
	word.Close()
	check.OK(t, <-ended)
}

func TestFirstWordsDropWhatMeansNothing(t *testing.T) {
	var to bytes.Buffer
	f := &firstWords{to: &to}
	for i := range 3 {
		n, err := fmt.Fprintf(f, "%d %s", i, noBinding)
		check.That(t, err == nil && n == len(noBinding)+2, "%d, %v", n, err)
	}
	f.Write(make([]byte, 2*firstWordsSize))
	check.That(t, strings.HasPrefix(to.String(), "0 1 2 \x00") && to.Len() == 6+2*firstWordsSize &&
		f.text.Len() == firstWordsSize, "%d bytes passed on, %d kept: %.20q", to.Len(), f.text.Len(), &to)
}
