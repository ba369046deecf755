package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

const (
	killSteps = 30
	killLimit = 4 * time.Minute // a job that takes longer hangs
)

// kill is what happens in one trial, at a point of a step of a rank.
type kill struct {
	seed              uint64
	program           string // of examples/resilient
	fault             string // kill, segv, cut or lost
	point             string // see resilient_faults.py
	step, rank, delay int
}

// programs returns the trainings that take turns: of text and of images.
func programs() []string { return []string{"train.py", "images.py"} }

// drawKill returns the trial of a seed.
func drawKill(seed uint64) kill {
	random := rand.New(rand.NewPCG(seed, 50))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	return kill{
		seed:    seed,
		program: programs()[seed%2],
		fault:   pick("kill", "segv", "cut", "lost"),
		point:   pick("forward", "backward", "agreement", "agreed", "optimizer", "random", "holder", "receiver"),
		step:    3 + random.IntN(killSteps-5),
		rank:    random.IntN(4),
		delay:   random.IntN(200),
	}
}

// transfers reports whether the fault happens while a new rank gets the state, which needs a fault
// before it.
func (k kill) transfers() bool { return k.point == "holder" || k.point == "receiver" }

// takesHost reports whether all ranks of a host are lost.
func (k kill) takesHost() bool { return k.fault == "cut" || k.fault == "lost" }

// flags returns how the job is started: with a spare for each rank that is lost.
func (k kill) flags() string {
	if k.takesHost() {
		return "--min-np 4 --max-np 4 -H f1:2,f2:2,f3:2 --spares 2"
	}
	return "--min-np 4 --max-np 4 -H f1:2,f2:2,f3:1 --spares 1"
}

// plan returns the faults as resilient_faults.py reads them. They wait until the spares are there.
func (k kill) plan() string {
	await := "await5:2:0,"
	fault := k.fault
	if k.takesHost() {
		await = "await6:2:0,"
		fault = "host"
	}
	switch {
	case k.transfers():
		return fmt.Sprintf("%sforward:%d:%d,%s:later:any:%s", await, k.step, k.rank, k.point, fault)
	case k.point == "random":
		return fmt.Sprintf("%srandom%d:%d:%d:%s", await, k.delay, k.step, k.rank, fault)
	}
	return fmt.Sprintf("%s%s:%d:%d:%s", await, k.point, k.step, k.rank, fault)
}

func (k kill) String() string {
	at := fmt.Sprintf("%s of step %d, rank %d", k.point, k.step, k.rank)
	switch {
	case k.transfers():
		at = fmt.Sprintf("%s of the state, after rank %d died in step %d", k.point, k.rank, k.step)
	case k.point == "random":
		at = fmt.Sprintf("%d ms into step %d, rank %d", k.delay, k.step, k.rank)
	}
	return fmt.Sprintf("seed %d: %s, %s, %s", k.seed, k.program, k.fault, at)
}

// kills does n trials and fails if the parameters of one end with other bits than without faults.
func (r *resilient) kills(ctx context.Context, n int, first uint64, jobs int) error {
	want := map[string]string{}
	for _, program := range programs() {
		bits, _, err := r.trial(ctx, kill{program: program, fault: "none"}, "")
		if err != nil {
			return fmt.Errorf("%s without faults: %w", program, err)
		}
		want[program] = bits
		fmt.Printf("%s without faults: %s\n", program, bits)
	}
	var (
		mu   sync.Mutex
		took []time.Duration
		bad  []string
		next = first
		wait sync.WaitGroup
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next-1 < first+uint64(n) && ctx.Err() == nil
	}
	for range min(jobs, n) {
		wait.Go(func() {
			for seed, more := take(); more; seed, more = take() {
				k := drawKill(seed)
				got, lasted, err := r.trial(ctx, k, k.plan())
				if err == nil && got != want[k.program] {
					err = fmt.Errorf("%s, want %s", got, want[k.program])
				}
				mu.Lock()
				if err == nil {
					took = append(took, lasted)
					fmt.Printf("%v: the same bits after %.1f s\n", k, lasted.Seconds())
				} else {
					bad = append(bad, k.String())
					fmt.Printf("%v: FAILED: %v\n", k, err)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(took) > 0 {
		fmt.Println(distribution("time of a job", took))
	}
	fmt.Printf("%d of %d trials ended with the bits of the run without faults\n", len(took), len(took)+len(bad))
	if len(bad) > 0 {
		return fmt.Errorf("%d trials failed:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return ctx.Err()
}

// trial runs one job on hosts of its own and returns its bits.
func (r *resilient) trial(ctx context.Context, k kill, plan string) (bits string, took time.Duration, err error) {
	c, err := lab.Namespaces(ctx, r.specs(3)...)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	j, err := r.start(ctx, c, r.gorun(k.flags(), filepath.Join(r.tests, "resilient_faults.py"), "FOLDER", plan,
		filepath.Join(r.examples, k.program), "--steps", fmt.Sprint(killSteps), "--every", "1")...)
	if err != nil {
		return "", 0, err
	}
	began := time.Now()
	defer func() { err = errors.Join(err, j.Close()) }()
	harmed := make(chan error, 1)
	watched, stop := context.WithCancel(ctx)
	go func() { harmed <- j.harmHost(watched, k.fault) }()
	bits, err = j.bits(killLimit)
	stop()
	err = errors.Join(err, <-harmed)
	if err == nil && !j.happened(plan) {
		err = errors.New("the fault did not happen")
	}
	if r.log != "" {
		name := filepath.Join(r.log, fmt.Sprintf("kill.%d", k.seed))
		err = errors.Join(err, os.WriteFile(name, []byte(fmt.Sprintln(k, err)+j.said()), 0o644))
	}
	return bits, time.Since(began), err
}

// happened reports whether all faults of a plan have.
func (j *job) happened(plan string) bool {
	for fault := range strings.SplitSeq(plan, ",") {
		words := strings.Split(fault, ":")
		if words[0] != "" && !strings.HasPrefix(words[0], "await") && len(j.files(strings.Join(words[:3], "-"))) == 0 {
			return false
		}
	}
	return true
}

// harmHost waits until a rank asks for harm to its host, does it, and tells the rank. It returns
// when ctx ends.
func (j *job) harmHost(ctx context.Context, fault string) error {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		for _, file := range j.files("host-*") {
			host, err := os.ReadFile(file)
			if err != nil || len(host) == 0 || strings.HasSuffix(file, ".new") {
				continue
			}
			if err := j.c.Cut(ctx, string(host)); err != nil {
				return err
			}
			if fault == "lost" {
				for _, pid := range j.c.Inside(string(host)) {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
			}
			if err := os.Truncate(file, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
