package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

const (
	warmSteps = 20  // left out of measurements of steps
	costSteps = 200 // of each job whose steps are compared
)

// cost compares the steps of a training that loses none with those of a plain one, on hosts that
// both use in turn.
func (r *resilient) cost(ctx context.Context, turns int) (err error) {
	c, err := r.hosts(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	flags := map[string]string{"plain": "-H f1:2,f2:2", "resilient": "--min-np 4 --max-np 4 -H f1:2,f2:2"}
	var ratios []float64
	for turn := range turns {
		order := []string{"plain", "resilient"}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		took := map[string]time.Duration{}
		for _, how := range order {
			if took[how], err = r.stepTime(ctx, c, flags[how], how); err != nil {
				return err
			}
		}
		ratios = append(ratios, took["resilient"].Seconds()/took["plain"].Seconds())
		fmt.Printf("a step: %.2f ms, plain %.2f ms, ratio %.4f\n", 1e3*took["resilient"].Seconds(),
			1e3*took["plain"].Seconds(), ratios[turn])
	}
	slices.Sort(ratios)
	quartile := func(q int) float64 { return ratios[(len(ratios)-1)*q/4] }
	fmt.Printf("step time of gorun.torch.Resilient over that of plain DistributedDataParallel, %d turns: median %.4f, "+
		"quartiles %.4f and %.4f\n", turns, quartile(2), quartile(1), quartile(3))
	return nil
}

// stepTime returns the median time of a step of one job.
func (r *resilient) stepTime(ctx context.Context, c *lab.Cluster, flags, how string) (took time.Duration, err error) {
	j, err := r.start(ctx, c, r.gorun(flags, r.script, how, "FOLDER")...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return j.medianStep(warmSteps + costSteps)
}

// medianStep waits until a process has done so many steps and returns the median time of one.
func (j *job) medianStep(steps int) (took time.Duration, err error) {
	var all []done
	enough := func() bool {
		for _, all = range j.steps() {
			if len(all) >= steps {
				return true
			}
		}
		return false
	}
	if !j.Await(startLimit+time.Duration(steps)*time.Second, enough) {
		return 0, fmt.Errorf("%d steps were not done: %s", steps, j.said())
	}
	var times []time.Duration
	for i := warmSteps + 1; i < len(all); i++ {
		times = append(times, all[i].at.Sub(all[i-1].at))
	}
	slices.Sort(times)
	return percentile(times, 50), nil
}
