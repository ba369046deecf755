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
	warmSteps = 20  // first steps, which are not measured
	costSteps = 200 // steps of each job
)

// way is one of the trainings whose steps are compared.
type way struct {
	name  string
	flags string
	how   string // name of the training in steps.py
}

// cost prints how long a step takes in a plain training, in a plain one that adds in the order of
// ranks, and in one that loses no step, and compares them. It does the same for a sharded model,
// whose last training keeps copies. The trainings run on the same hosts in turn.
func (r *resilient) cost(ctx context.Context, turns int) (err error) {
	c, err := r.hosts(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	const (
		fixed = "-H f1:2,f2:2"
		heals = "--min-np 4 --max-np 4 " + fixed
	)
	ways := []way{
		{"plain", fixed, "plain"},
		{"plain, in the order of ranks", fixed + " -x RING_ORDER=rank", "plain"},
		{"resilient", heals, "resilient"},
		{"sharded", fixed, "sharded"},
		{"sharded, resilient, copied every 10 steps", heals, "copied"},
	}
	took := map[string][]spent{}
	for turn := range turns {
		for i := range ways {
			w := ways[(i+turn)%len(ways)]
			s, err := r.stepTime(ctx, c, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			took[w.name] = append(took[w.name], s)
			fmt.Printf("a step, %s: %.2f ms, of which processors %.2f ms\n", w.name, 1e3*s.wall.Seconds(),
				1e3*s.processor.Seconds())
		}
	}
	compare("the order of ranks", took[ways[1].name], took[ways[0].name])
	compare("gorun.torch.Resilient beside the order", took[ways[2].name], took[ways[1].name])
	compare("gorun.torch.Resilient", took[ways[2].name], took[ways[0].name])
	compare("gorun.torch.Resilient with copies", took[ways[4].name], took[ways[3].name])
	return nil
}

// compare prints how much longer the steps of one training took than those of another one, turn by
// turn.
func compare(what string, these, those []spent) {
	ratio := func(of func(spent) time.Duration) string {
		var all []float64
		for turn := range these {
			all = append(all, of(these[turn]).Seconds()/of(those[turn]).Seconds())
		}
		slices.Sort(all)
		quartile := func(q int) float64 { return all[(len(all)-1)*q/4] }
		return fmt.Sprintf("median %.4f, quartiles %.4f and %.4f", quartile(2), quartile(1), quartile(3))
	}
	fmt.Printf("%s, %d turns, ratio of step times: %s; of processor times: %s\n", what, len(these),
		ratio(func(s spent) time.Duration { return s.wall }), ratio(func(s spent) time.Duration { return s.processor }))
}

// stepTime returns what a step of one job takes.
func (r *resilient) stepTime(ctx context.Context, c *lab.Cluster, w way) (s spent, err error) {
	j, err := r.start(ctx, c, r.gorun(w.flags, r.script, w.how, "FOLDER")...)
	if err != nil {
		return spent{}, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return j.medianStep(warmSteps + costSteps)
}

// medianStep waits until a process has done so many steps and returns the median of what one takes.
func (j *job) medianStep(steps int) (s spent, err error) {
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
		return spent{}, fmt.Errorf("%d steps were not done: %s", steps, j.said())
	}
	var wall, processor []time.Duration
	for i := warmSteps + 1; i < len(all); i++ {
		wall = append(wall, all[i].at.Sub(all[i-1].at))
		processor = append(processor, all[i].processor-all[i-1].processor)
	}
	slices.Sort(wall)
	slices.Sort(processor)
	return spent{percentile(wall, 50), percentile(processor, 50)}, nil
}

// spent is the wall time and the processor time of one step of a rank.
type spent struct{ wall, processor time.Duration }
