package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/faults"
	"github.com/gorun/gorun/internal/test/lab"
)

// resilient is what jobs of gorun.torch.Resilient share.
type resilient struct {
	*bench
	script   string // steps.py
	python   string // with the newest PyTorch
	examples string // folder of the training programs
	tests    string // folder of the programs that harm them
}

// newResilient returns what jobs of the gorun of a built source tree need.
func newResilient(b *bench, gorun string) (*resilient, error) {
	bin, err := lab.FindTorch()
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(filepath.Join(filepath.Dir(gorun), ".."))
	if err != nil {
		return nil, err
	}
	b.env[2] = strings.Replace(b.env[2], "=", "="+filepath.Join(root, "ring/python")+":", 1) // beside Horovod
	r := &resilient{
		bench:    b,
		script:   filepath.Join(b.dir, "steps.py"),
		python:   filepath.Join(bin, "python"),
		examples: filepath.Join(root, "examples/resilient"),
		tests:    filepath.Join(root, "ring/python/tests"),
	}
	return r, os.WriteFile(r.script, []byte(stepsProgram), 0o644)
}

// start starts a job. FOLDER in argv stands for a folder of its own.
func (r *resilient) start(ctx context.Context, c *lab.Cluster, argv ...string) (*job, error) {
	j := &job{c: c}
	var err error
	if j.folder, err = os.MkdirTemp(r.dir, "job-"); err != nil {
		return nil, err
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "FOLDER", j.folder)
	}
	j.Job, err = new(faults.Marks).Start(ctx, c, r.env, argv...)
	return j, err
}

// gorun returns the command line of a job of 4 ranks. Flags say where.
func (r *resilient) gorun(flags string, program ...string) []string {
	ours := r.launchers[len(r.launchers)-1].argv
	return slices.Concat(ours, []string{"-np", "4", "--prefix", "none"}, strings.Fields(flags), []string{r.python},
		program)
}

// bits waits for the end of a job, and returns what all ranks print then.
func (j *job) bits(limit time.Duration) (string, error) {
	select {
	case <-j.Ended():
	case <-time.After(limit):
		return "", fmt.Errorf("it hangs: no end within %v", limit)
	}
	if j.Code() != 0 {
		return "", fmt.Errorf("exit code %d", j.Code())
	}
	line := regexp.MustCompile(`(?m)^rank \d+: (step \d+, bits [0-9a-f]+)\s*$`)
	ends := line.FindAllStringSubmatch(j.Out.String(), -1)
	if len(ends) != 4 {
		return "", fmt.Errorf("%d ranks came to the end", len(ends))
	}
	for _, end := range ends {
		if end[1] != ends[0][1] {
			return "", errors.New("ranks have unlike bits")
		}
	}
	return ends[0][1], nil
}

// files returns those of the job's folder that match a pattern.
func (j *job) files(pattern string) []string {
	all, _ := filepath.Glob(filepath.Join(j.folder, pattern)) // the pattern is right
	return all
}

// said returns the output of a job.
func (j *job) said() string { return j.Out.String() + "--- stderr\n" + j.Err.String() }
