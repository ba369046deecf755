package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	startLimit = 90 * time.Second
	limit      = 120 * time.Second // "nothing" in the table means: not within this time
	settle     = 2 * time.Second   // time that ranks train before the fault
)

// outcome is how a job ended.
type outcome struct {
	took   time.Duration // time until the expected ranks trained, or the job ended as it must; 0: neither
	paused time.Duration // longest pause of a rank that was there before the fault
	loads  time.Duration // longest time that a new rank spent on imports
	says   string        // what happened instead, or how the job ended
	ended  time.Duration // time until the job ended although it must not; 0: it did not
}

// try does a row's harm once to a job of s.
func (b *bench) try(ctx context.Context, s launcher, r row) (o outcome, err error) {
	c, err := b.hosts(ctx, max(2, strings.Count(r.list, "\n")+1))
	if c != nil {
		defer func() { err = errors.Join(err, c.Close()) }() // ends what is left, too
	}
	if err != nil {
		return o, err
	}
	j, err := b.start(ctx, s, c, r.list, r.flags)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, j.Close(), b.keep(s, r, j)) }()
	var ranks []stint
	if r.early {
		if !j.Await(startLimit, func() bool { return strings.Contains(j.Out.String(), "begun") }) {
			return o, fmt.Errorf("it did not start: %s%s", &j.Out, &j.Err)
		}
	} else if ranks, err = j.await(startLimit, exactly(r.size)); err != nil {
		return o, fmt.Errorf("it did not start: %w: %s%s", err, &j.Out, &j.Err)
	} else {
		time.Sleep(settle)
	}
	began, err := r.do(ctx, j, ranks)
	if err != nil {
		return o, err
	}
	return j.watch(began, r, ranks), nil
}

// keep saves a job's output if requested.
func (b *bench) keep(s launcher, r row, j *job) error {
	if b.log == "" {
		return nil
	}
	name := strings.ReplaceAll(r.name, " ", "-") + "." + s.name + "." + filepath.Base(j.folder)
	return os.WriteFile(filepath.Join(b.log, name), []byte(j.Out.String()+"--- stderr\n"+j.Err.String()), 0o644)
}

// watch observes a job after a fault.
func (j *job) watch(began time.Time, r row, before []stint) (o outcome) {
	if r.fits == nil {
		if j.Await(limit, func() bool { return false }); j.over() {
			return outcome{took: time.Since(began), says: fmt.Sprintf("exit code %d", j.Code())}
		}
		return outcome{says: fmt.Sprintf("still running after %.0f s", limit.Seconds())}
	}
	after, err := j.await(limit, r.fits)
	switch {
	case errors.Is(err, errEnded):
		return outcome{says: fmt.Sprintf("the job ends, exit code %d", j.Code()), ended: time.Since(began)}
	case err != nil:
		return outcome{says: err.Error()}
	}
	o.took = time.Since(began)
	for _, s := range after {
		if slices.ContainsFunc(before, func(old stint) bool { return old.host == s.host && old.pid == s.pid }) {
			o.paused = max(o.paused, s.paused)
		} else {
			o.loads = max(o.loads, s.imported)
		}
	}
	return o
}

func (j *job) over() bool {
	select {
	case <-j.Ended():
		return true
	default:
		return false
	}
}
