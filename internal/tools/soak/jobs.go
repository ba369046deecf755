package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/test/faults"
	"github.com/gorun/gorun/internal/test/lab"
)

const (
	jobTime    = time.Minute     // one job
	settleTime = 5 * time.Second // for sshd to take leave of the last one
)

type soak struct {
	gorun   string
	cluster *lab.Cluster
	marks   faults.Marks
	samples []sample

	keeper *faults.Job // gorun up; nil if the hosts are not kept
	env    []string    // environment of jobs on kept hosts
}

// here says whether the i-th job runs on this machine: every other one, unless hosts are kept.
func (s *soak) here(i int) bool { return i%2 == 0 && s.keeper == nil }

// argv returns the i-th job: 2 ranks here, or 4 on the lab's hosts.
func (s *soak) argv(i int, program ...string) []string {
	if s.here(i) {
		return append([]string{s.gorun, "-np", "2"}, program...)
	}
	return append([]string{s.gorun, "-F", "{config}", "-np", "4", "-H", "f1:2,f2:2"}, program...)
}

// inTurn runs n jobs one after the other and takes about thirty samples.
func (s *soak) inTurn(ctx context.Context, n int) error {
	tmp, err := os.MkdirTemp("", "gorun-e2e-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var took time.Duration // without samples
	every := max(1, n/30)
	for i := range n {
		began := time.Now()
		if _, err := s.job(ctx, i, tmp, "true"); err != nil {
			return err
		}
		took += time.Since(began)
		if i == 3 || i > 3 && (i%every == 0 || i == n-1) { // the first ones warm everything up
			s.sample(i+1, tmp)
		}
	}
	if len(s.samples) == 0 {
		s.sample(n, tmp)
	}
	fmt.Printf("%d jobs in %.0f s, %.0f ms each, %.0f a second\n", n, took.Seconds(), took.Seconds()*1000/float64(n),
		float64(n)/took.Seconds())
	return nil
}

// sample takes a sample once sshd has closed the last job's sessions. It waits a bounded time,
// since sessions that stay are a finding.
func (s *soak) sample(jobs int, tmp string) {
	var now sample
	for deadline := time.Now().Add(settleTime); ; time.Sleep(10 * time.Millisecond) {
		now = take(jobs, s.cluster, tmp)
		if s.keeper != nil {
			s.countKept(now.counts)
		}
		settled := now.counts[sessions] == 0
		if len(s.samples) > 0 {
			first := s.samples[0].counts
			settled = now.counts[sessions] <= first[sessions] && now.counts[sshdFiles] <= first[sshdFiles] &&
				now.counts[keptProcesses] == first[keptProcesses]
		}
		if settled || time.Now().After(deadline) {
			break
		}
	}
	s.samples = append(s.samples, now)
}

// job runs the i-th job, which must succeed, and returns its output.
func (s *soak) job(ctx context.Context, i int, tmp string, program ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	if s.keeper != nil {
		return s.keptJob(ctx, s.argv(i, program...), tmp)
	}
	j, err := s.marks.Start(ctx, s.cluster, []string{"TMPDIR=" + tmp}, s.argv(i, program...)...)
	if err != nil {
		return "", fmt.Errorf("start job %d: %w", i, err)
	}
	<-j.Ended()
	state := j.Cmd.ProcessState
	left := j.Processes("")
	if err := j.Close(); err != nil {
		return "", err
	}
	switch {
	case !state.Success():
		return "", fmt.Errorf("job %d: %v: %s", i, state, j.Err.String())
	case len(left) > 0:
		return "", fmt.Errorf("job %d left %d processes", i, len(left))
	}
	return j.Out.String(), nil
}

// together runs n jobs at once (B13): all must succeed and none may see another's output.
func (s *soak) together(ctx context.Context, n int) error {
	outs := make([]string, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			outs[i], errs[i] = s.job(ctx, i, os.TempDir(), "sh", "-c", fmt.Sprintf("echo $GORUN_JOB_ID %d $RANK", i))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%d jobs at once: %w", n, err)
	}
	ids := map[string]bool{}
	for i, out := range outs {
		ranks := 4
		if s.here(i) {
			ranks = 2
		}
		id, err := crossTalk(i, ranks, out)
		if err != nil {
			return err
		}
		if ids[id] {
			return fmt.Errorf("two jobs are called %s", id)
		}
		ids[id] = true
	}
	fmt.Printf("%d jobs at once in %.1f s, all right\n", n, time.Since(began).Seconds())
	return nil
}

// crossTalk checks that a job printed the output of its ranks and nothing else, and returns its id.
func crossTalk(i, ranks int, out string) (id string, err error) {
	said := map[string]int{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line[strings.LastIndex(line, ": ")+1:]) // behind the label
		if len(words) != 3 || (id != "" && words[0] != id) {
			return "", fmt.Errorf("job %d printed %q", i, line)
		}
		id = words[0]
		said[words[1]+" "+words[2]]++
	}
	for rank := range ranks {
		if said[fmt.Sprint(i, " ", rank)] != 1 {
			return "", fmt.Errorf("job %d: its rank %d did not speak once: %q", i, rank, out)
		}
	}
	if len(said) != ranks {
		return "", fmt.Errorf("job %d printed what is not its own: %q", i, out)
	}
	return id, nil
}
