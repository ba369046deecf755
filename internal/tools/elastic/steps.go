package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed steps.py
var stepsProgram string

// process is one process of steps.py.
type process struct {
	host string
	pid  int // as it sees itself
}

// done is a step that a process has done and that holds.
type done struct {
	process
	at          time.Time
	step, epoch int
	size        int           // of the job
	processor   time.Duration // time that the process has used until then
}

// steps returns what the processes of a job have done, each in order.
func (j *job) steps() (all map[process][]done) {
	all = map[process][]done{}
	for _, file := range j.files("steps-*") {
		words := strings.Split(filepath.Base(file), "-")
		p := process{host: words[1]}
		p.pid, _ = strconv.Atoi(words[2])
		text, err := os.Open(file)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(text)
		for lines.Scan() {
			var at, processor float64
			d := done{process: p}
			if n, _ := fmt.Sscan(lines.Text(), &at, &d.step, &d.epoch, &d.size, &processor); n == 5 {
				d.processor = time.Duration(processor * 1e9)
				d.at = time.UnixMicro(int64(at * 1e6))
				all[p] = append(all[p], d)
			}
		}
		text.Close()
	}
	return all
}

// ready returns how many processes have come to their first step.
func (j *job) ready() int {
	return len(j.files("ready-*"))
}

// newest returns the last step that each process of the last epoch has done.
func newest(all map[process][]done) (last []done) {
	epoch := 0
	for _, steps := range all {
		epoch = max(epoch, steps[len(steps)-1].epoch)
	}
	for _, steps := range all {
		if d := steps[len(steps)-1]; d.epoch == epoch {
			last = append(last, d)
		}
	}
	return last
}

// awaitTraining waits until ready processes have been ready and the newest epoch has size ranks,
// which all have done a step.
func (j *job) awaitTraining(ready, size int) (last []done, err error) {
	fits := func() bool {
		if j.ready() < ready {
			return false
		}
		last = newest(j.steps())
		return len(last) == size && last[0].size == size
	}
	if !j.Await(startLimit+limit, fits) {
		return nil, fmt.Errorf("%d ready processes and %d ranks did not come: %s", ready, size, j.said())
	}
	return last, nil
}

// recoveries kills ranks of one job, n times, and prints how long it took until all ranks that are
// left, and the spare if there is one, had done a step.
func (r *resilient) recoveries(ctx context.Context, n int, spare bool) (err error) {
	c, err := r.hosts(ctx, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	flags := shortRest + " --min-np 3 --max-np 4 -H f1:2,f2:2"
	processes := 4
	left := 3
	what := "a rank is killed, no spare, 100 MB of state: the others' next step"
	if spare {
		flags = shortRest + " --min-np 4 --max-np 4 --spares 1 -H f1:2,f2:2,f3:1"
		processes = 5
		left = 4
		what = "a rank is killed, a spare is ready, 100 MB of state: the next step of all"
	}
	j, err := r.start(ctx, c, r.gorun(flags, r.script, "resilient", "FOLDER", "100")...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var took []time.Duration
	for i := range n {
		last, err := j.awaitTraining(processes+i, 4)
		if err != nil {
			return err
		}
		time.Sleep(settle)
		victim := last[i%len(last)]
		began := time.Now()
		if err := j.kill(stint{host: victim.host, pid: victim.pid}); err != nil {
			return err
		}
		lasted, err := j.awaitStep(began, last[0].epoch, left)
		if err != nil {
			return err
		}
		took = append(took, lasted)
		fmt.Printf("%s:%d killed: %.3f s\n", victim.host, victim.pid, lasted.Seconds())
	}
	fmt.Println(distribution(what, took))
	return nil
}

// awaitStep waits until so many processes have done a step in an epoch after the given one, and
// returns when the last of them had, from began.
func (j *job) awaitStep(began time.Time, epoch, processes int) (took time.Duration, err error) {
	came := func() bool {
		first := 0
		took = 0
		for _, steps := range j.steps() {
			for _, d := range steps {
				if d.epoch > epoch {
					first++
					took = max(took, d.at.Sub(began))
					break
				}
			}
		}
		return first >= processes
	}
	if !j.Await(limit, came) {
		return 0, fmt.Errorf("no step within %v: %s", limit, j.said())
	}
	return took, nil
}
