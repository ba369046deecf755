package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// hostsPerJob is the number of hosts of a job in which all but one go silent, or are added, one
// after the other.
const hostsPerJob = 11

// silences cuts off n hosts, those of a job one after the other, and prints how long the others
// took each time.
func (b *bench) silences(ctx context.Context, n, jobs int) error {
	var (
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		wait sync.WaitGroup
	)
	for i := range jobs {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for share := n/jobs + min(1, max(0, n%jobs-i)); share > 0; share -= hostsPerJob - 1 {
				took, err := b.silence(ctx, min(share, hostsPerJob-1))
				mu.Lock()
				all = append(all, took...)
				errs = append(errs, err)
				mu.Unlock()
			}
		}()
	}
	wait.Wait()
	if len(all) > 0 {
		fmt.Println(distribution("a host goes silent: all others train again", all))
	}
	return errors.Join(errs...)
}

// silence cuts off n hosts of one job.
func (b *bench) silence(ctx context.Context, n int) (took []time.Duration, err error) {
	list := hostList(n + 1)
	j, err := b.quick(ctx, n+1, list, fmt.Sprintf("-np %d --min-np 1 HOSTS", n+1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close(), j.c.Close()) }()
	for size := n; size >= 1; size-- {
		time.Sleep(settle + rand.N(time.Second)) // at any time of a heartbeat
		began := time.Now()
		if err := j.c.Cut(ctx, fmt.Sprintf("f%d", size+1)); err != nil {
			return took, err
		}
		if _, err := j.await(limit, exactly(size)); err != nil {
			return took, fmt.Errorf("an epoch of %d: %w: %s", size, err, &j.Err)
		}
		took = append(took, time.Since(began))
		fmt.Println("silent", began.Format("15:04:05.0"), time.Since(began).Round(10*time.Millisecond))
	}
	return took, nil
}

// additions adds n hosts to one job, one after the other.
func (b *bench) additions(ctx context.Context, n int) (err error) {
	j, err := b.quick(ctx, n+1, hostList(1), fmt.Sprintf("-np 1 --min-np 1 --max-np %d DISCOVERY", n+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(), j.c.Close()) }()
	var took, paused []time.Duration
	for size := 2; size <= n+1; size++ {
		time.Sleep(settle + rand.N(time.Second)) // at any time between two polls
		began := time.Now()
		if err := j.list(hostList(size)); err != nil {
			return err
		}
		ranks, err := j.await(limit, exactly(size))
		if err != nil {
			return fmt.Errorf("an epoch of %d: %w: %s", size, err, &j.Err)
		}
		took = append(took, time.Since(began))
		var longest time.Duration
		for _, s := range ranks {
			longest = max(longest, s.paused)
		}
		paused = append(paused, longest)
		fmt.Println("added", time.Since(began).Round(10*time.Millisecond), "pause", longest)
	}
	fmt.Println(distribution("a host is added: its rank's first step", took))
	fmt.Println(distribution("the longest pause of those that are there", paused))
	return nil
}

// quick starts a job under gorun whose ranks import little, and waits until it trains. The caller
// closes it and its hosts.
func (b *bench) quick(ctx context.Context, hosts int, list, flags string) (j *job, err error) {
	c, err := b.hosts(ctx, hosts)
	if err == nil {
		j, err = b.start(ctx, b.launchers[len(b.launchers)-1], c, list, flags, "numpy")
	}
	if err == nil {
		if _, err = j.await(startLimit, exactly(strings.Count(list, "\n"))); err == nil {
			return j, nil
		}
		err = errors.Join(fmt.Errorf("it did not start: %w: %s%s", err, &j.Out, &j.Err), j.Close())
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	return nil, err
}

// hostList returns the first n hosts with a slot each.
func hostList(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d:1\n", i+1)
	}
	return b.String()
}
