package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// keep connects to the lab's hosts with gorun up; end runs gorun down and fails if a process is
// left. All jobs have the same home.
func (s *soak) keep(ctx context.Context, home string) (end func() error, err error) {
	s.env = []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home}
	up, err := s.marks.Start(ctx, s.cluster, s.env, s.gorun, "up", "-F", "{config}", "-H", "f1:2,f2:2")
	if err != nil {
		return nil, fmt.Errorf("start gorun up: %w", err)
	}
	<-up.Ended()
	if up.Code() != 0 {
		return nil, errors.Join(fmt.Errorf("gorun up: code %d: %s", up.Code(), up.Err.String()), up.Close())
	}
	s.keeper = up
	return func() error {
		down, err := s.marks.Start(context.WithoutCancel(ctx), s.cluster, s.env, s.gorun, "down")
		if err != nil {
			return errors.Join(fmt.Errorf("start gorun down: %w", err), up.Close())
		}
		<-down.Ended()
		left := len(s.keeping())
		for deadline := time.Now().Add(settleTime); left > 0 && time.Now().Before(deadline); left = len(s.keeping()) {
			time.Sleep(10 * time.Millisecond)
		}
		err = errors.Join(down.Close(), up.Close())
		if down.Code() != 0 || left > 0 {
			err = errors.Join(fmt.Errorf("gorun down: code %d, %d processes left: %s", down.Code(), left,
				down.Err.String()), err)
		}
		return err
	}, nil
}

// keptJob runs a job and does not search for processes that it left, which would take as long as
// the job. The samples count them.
func (s *soak) keptJob(ctx context.Context, argv []string, tmp string) (string, error) {
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{config}", s.cluster.ConfigFile)
	}
	cmd := s.cluster.Command(ctx, argv...)
	cmd.Env = append(append(cmd.Environ(), "TMPDIR="+tmp), s.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%q: %w: %s", argv, err, stderr.String())
	}
	return string(out), nil
}

// keeping returns the processes that keep hosts: gorun in the background, and all below the hosts'
// sshds.
func (s *soak) keeping() []int {
	all := s.keeper.Processes("")
	for i := range s.cluster.Hosts {
		all = append(all, below(s.cluster.Hosts[i].PID)...)
	}
	return all
}

func below(pid int) (all []int) {
	for _, child := range lab.Children(pid) {
		all = append(append(all, child), below(child)...)
	}
	return all
}

// countKept adds what keeps hosts to a sample.
func (s *soak) countKept(counts map[string]float64) {
	pids := s.keeping()
	counts[keptProcesses] = float64(len(pids))
	for _, pid := range pids {
		counts[keptFiles] += float64(named(fmt.Sprintf("/proc/%d/fd", pid), ""))
		counts[keptKiB] += float64(resident(pid))
	}
}
