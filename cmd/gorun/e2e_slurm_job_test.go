package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/lab"
)

// testGPUs checks that the ranks of a node may use all that the job has there, however it asked for them.
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

// testScancel has gorun in the place of the job's shell, with which Slurm would kill it at once. Whether the
// ranks still say something is not gorun's to promise: scancel's SIGTERM reaches srun, too, which kills its step.
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

// warnedBeforeTheLimit starts a job that Slurm warns of its time limit, which takes a while, and returns the
// test of it. The job runs a copy of gorun, so that other tests do not take it for something left behind.
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

// testDocs runs every command of docs/slurm.md in turn, those that submit the examples among them, and
// compares what it prints with what stands there.
func (s slurmLab) testDocs(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/slurm.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train"), []byte(train), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	ran := ""
	for _, c := range typedIn(string(text)) {
		ran += c.line + "\n"
		if strings.HasPrefix(c.line, "scancel ") {
			file := func() string { text, _ := os.ReadFile(filepath.Join(dir, "checkpoint.out")); return string(text) }
			awaitText(t, file, "rank ", 2)
		}
		cmd := s.Command(t.Context(), "bash", "-c", c.line)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary("gorun"))+":"+os.Getenv("PATH"), "GORUN_PREFIX=")
		var said output
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			t.Errorf("$ %s\n%v\n%s", c.line, err, said.String())
		}
		if strings.HasPrefix(c.line, "sbatch ") && !strings.Contains(c.line, "checkpoint") || strings.HasPrefix(c.line, "scancel ") {
			s.idle(t)
		}
		if got := linesOf(said.String()); c.want != nil && !holds(got, c.want) {
			t.Errorf("$ %s\ngot\n%s\nwant\n%s", c.line, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	scripts, _ := filepath.Glob(filepath.Join(root, "examples/slurm/*.sbatch"))
	for _, script := range scripts {
		if !strings.Contains(ran, "examples/slurm/"+filepath.Base(script)) {
			t.Errorf("docs/slurm.md does not run %s", script)
		}
	}
	if len(scripts) == 0 || strings.Count(ran, "\n") < 8 {
		t.Errorf("%d scripts, commands:\n%s", len(scripts), ran)
	}
}

// idle waits until only the job of the background is left.
func (s slurmLab) idle(t *testing.T) {
	t.Helper()
	await(t, "the end of the docs' jobs", func() bool {
		out, err := s.Command(context.Background(), "squeue", "-h", "-n", "train,checkpoint,parts").Output()
		return err == nil && len(strings.TrimSpace(string(out))) == 0
	})
}

// documented is a command in a document, and the lines that it prints.
type documented struct {
	line string
	want []string
}

// typedIn finds the commands of a document: lines that begin with $ in its blocks.
func typedIn(text string) (found []documented) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, typed := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && typed:
			found = append(found, documented{line: command})
		case inside && len(found) > 0:
			last := &found[len(found)-1]
			last.want = append(last.want, line)
		}
	}
	return found
}

// linesOf are the lines of text, without gorun's word on the lab's one machine.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, " are one machine (") })
}

// holds reports whether got are the lines of want, of which a "..." stands for any number, in any order: that
// of ranks is not certain.
func holds(got, want []string) bool {
	got = slices.Clone(got)
	for _, line := range want {
		i := slices.Index(got, line)
		if line == "..." {
			return true
		}
		if i < 0 {
			return false
		}
		got = slices.Delete(got, i, i+1)
	}
	return len(got) == 0
}

func TestHoldsCanFail(t *testing.T) {
	for _, tc := range []struct {
		got, want []string
		ok        bool
	}{
		{[]string{"b", "a"}, []string{"a", "b"}, true},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"a"}, false},
		{[]string{"a", "b"}, []string{"b", "..."}, true},
	} {
		if holds(tc.got, tc.want) != tc.ok {
			t.Errorf("%q %q", tc.got, tc.want)
		}
	}
}
