package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/faults"
	"github.com/gorun/gorun/internal/test/lab"
)

const (
	startLimit = 30 * time.Second
	endLimit   = 30 * time.Second // "never" in the table means: not within this time
)

// trial is one job on its hosts, before its fault.
type trial struct {
	*faults.Job
	c       *lab.Cluster
	l       launcher
	trigger string // a file that ranks wait for
}

// outcome is how a job ended.
type outcome struct {
	known bool
	end   time.Duration // time until the launcher ended; endLimit: it still ran
	clean time.Duration // time until the last rank ended; endLimit: some still ran
	exit  int
	left  int
	says  string
}

func (o outcome) orWorse(p outcome) outcome {
	if !o.known || p.end >= endLimit || p.clean >= endLimit || o.end < endLimit && p.end+p.clean > o.end+o.clean {
		return p
	}
	return o
}

// cell returns an outcome for the table.
func (o outcome) cell(f fault) string {
	var words []string
	switch {
	case f.launcherDies:
	case o.end >= endLimit:
		words = append(words, fmt.Sprintf("still running after %.0f s", endLimit.Seconds()))
	default:
		words = append(words, fmt.Sprintf("ended after %.1f s, exit code %d", o.end.Seconds(), o.exit))
	}
	switch {
	case o.left > 0:
		words = append(words, fmt.Sprintf("%d processes left by then", o.left))
	case f.launcherDies || o.clean > o.end+500*time.Millisecond:
		words = append(words, fmt.Sprintf("ranks gone after %.1f s", o.clean.Seconds()))
	}
	if f.quote && o.says != "" {
		words = append(words, "“"+o.says+"”")
	}
	return strings.Join(words, "; ")
}

// try does f once to a job of l.
func try(ctx context.Context, l launcher, f fault) (o outcome, err error) {
	c, err := lab.Namespaces(ctx, lab.Specs(2)...)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, c.Close()) }() // takes along what is left
	s := &trial{c: c, l: l, trigger: filepath.Join(c.Dir, "go")}
	program := strings.ReplaceAll(strings.ReplaceAll(f.program, "GO", s.trigger), "MYRANK",
		"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}")
	if s.Job, err = new(faults.Marks).Start(ctx, c, l.env, l.argv(c, f.system, program)...); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !s.Await(startLimit, func() bool { return len(s.ranks()) == 4 }) {
		return o, fmt.Errorf("it did not start: %s", &s.Err)
	}
	time.Sleep(500 * time.Millisecond) // what is behind the ranks settles too
	began := time.Now()
	if err := f.do(ctx, s); err != nil {
		return o, err
	}
	return s.watch(began, f), nil
}

// watch waits until launcher and ranks have ended, or the limit is reached.
func (s *trial) watch(began time.Time, f fault) outcome {
	o := outcome{known: true, end: endLimit, clean: endLimit}
	for time.Since(began) < endLimit && (o.end == endLimit || o.clean == endLimit) {
		select {
		case <-s.Ended():
			if o.end == endLimit {
				o.end = time.Since(began)
				o.exit = s.Code()
			}
		default:
		}
		left := s.Processes(f.word)
		if o.left = len(left); o.left == 0 && o.clean == endLimit {
			o.clean = time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if f.launcherDies {
		o.end = 0
	}
	o.says = firstWords(s.Err.String())
	return o
}

// firstWords returns the first line that is not empty.
func firstWords(text string) string {
	for line := range strings.Lines(text) {
		line = strings.Trim(line, "-*= \n")
		if len(line) > 8 && !strings.HasPrefix(line, "Warning") {
			return fmt.Sprintf("%.150s", line)
		}
	}
	return ""
}

func (s *trial) ranks() []int { return s.Processes(rankWord) }

// on reports whether a process runs in the host's network.
func (s *trial) on(host string, pid int) bool {
	ours, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", s.c.Host(host).PID))
	its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err1 == nil && err2 == nil && ours == its
}

// find returns the process with word in its command line for which ok holds.
func find(word string, ok func(pid int) bool) (int, error) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), word) && ok(pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process with %q", word)
}
