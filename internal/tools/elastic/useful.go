package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// faultEvery is the time from one fault to the next where the useful share of time is measured.
const faultEvery = 30 * time.Second

// shortRest lets a host have ranks again within 5 s of a failure, as Horovod's jobs here: a killed
// rank tells nothing about its host.
const shortRest = "--blacklist-cooldown-range 1,5"

// contender is one way to go on after a fault.
type contender struct {
	name string
	argv func(r *resilient, c *lab.Cluster) ([]string, error)
}

func contenders() []contender {
	return []contender{
		{"gorun.torch.Resilient", func(r *resilient, _ *lab.Cluster) ([]string, error) {
			const flags = shortRest + " --min-np 4 --max-np 4 --spares 1 -H f1:2,f2:2,f3:1"
			return r.gorun(flags, r.script, "resilient", "FOLDER"), nil
		}},
		{"torchrun, a checkpoint every 10 steps", func(r *resilient, _ *lab.Cluster) ([]string, error) {
			const script = `for host in f1 f2; do ssh -F "$0" $host GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 "$1" ` +
				`-m torch.distributed.run --nnodes 2 --nproc-per-node 2 --max-restarts 10000 --rdzv-backend c10d ` +
				`--rdzv-id training --rdzv-endpoint f1:29400 --log-dir "$3/logs" "$2" checkpoints "$3" & done; wait`
			return []string{"sh", "-c", script, "{config}", r.python, r.script, "FOLDER"}, nil
		}},
		{"Horovod, a commit in each step", func(r *resilient, c *lab.Cluster) ([]string, error) {
			discover := filepath.Join(c.Dir, "discover")
			flags := []string{"-np", "4", "--min-np", "2", "--max-np", "4", "--blacklist-cooldown-range", "1", "5",
				"--host-discovery-script", discover, lab.Python, r.script, "horovod", "FOLDER"}
			return append(slices.Clone(r.launchers[0].argv), flags...),
				os.WriteFile(discover, []byte("#!/bin/sh\nprintf 'f1:2\\nf2:2\\n'\n"), 0o700)
		}},
	}
}

// useful prints the share of useful time of each contender while a rank is killed every 30 s: the
// steps that were kept, each counted with the time that it takes without faults.
func (r *resilient) useful(ctx context.Context, window time.Duration, turns int) error {
	for range turns {
		for _, who := range contenders() {
			share, says, err := r.share(ctx, who, window)
			if err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
			fmt.Printf("%s: useful %.1f %% of %v%s\n", who.name, 100*share, window, says)
		}
	}
	return nil
}

// share runs one job for window after its first steps.
func (r *resilient) share(ctx context.Context, who contender, window time.Duration) (share float64, says string,
	err error) {
	c, err := r.hosts(ctx, 3)
	if c != nil {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if err != nil {
		return 0, "", err
	}
	argv, err := who.argv(r, c)
	if err != nil {
		return 0, "", err
	}
	j, err := r.start(ctx, c, argv...)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	step, err := j.medianStep(warmSteps + 100)
	if err != nil {
		return 0, "", err
	}
	began := time.Now()
	before := j.furthest()
	kills := 0
	next := began.Add(faultEvery / 2)
	for ; time.Since(began) < window && ctx.Err() == nil; time.Sleep(faultEvery / 100) {
		if j.over() {
			says = fmt.Sprintf("; the job ended after %.0f s, exit code %d", time.Since(began).Seconds(), j.Code())
			break
		}
		if time.Now().After(next) {
			next = next.Add(faultEvery)
			if j.killAny() {
				kills++
			}
		}
	}
	says = fmt.Sprintf(", %d ranks killed%s", kills, says)
	return float64(j.furthest()-before) * step.wall.Seconds() / window.Seconds(), says, ctx.Err()
}

// furthest returns the highest step that was done.
func (j *job) furthest() (step int) {
	for _, steps := range j.steps() {
		step = max(step, steps[len(steps)-1].step)
	}
	return step
}

// killAny kills a rank that did a step recently, and reports whether it did.
func (j *job) killAny() bool {
	var alive []done
	for _, steps := range j.steps() {
		if d := steps[len(steps)-1]; time.Since(d.at) < settle {
			alive = append(alive, d)
		}
	}
	if len(alive) == 0 {
		return false
	}
	d := alive[rand.IntN(len(alive))]
	return j.kill(stint{host: d.host, pid: d.pid}) == nil
}
