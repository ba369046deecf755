package connect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

// Limit is how many connections are set up at a time.
const Limit = 64

// slowTime is how long a step may take before the host is reported as slow.
const slowTime = 5 * time.Second

// Turns bounds the connections that are being set up to [Limit].
type Turns chan struct{}

// NewTurns returns Limit free turns.
func NewTurns() Turns { return make(Turns, Limit) }

// Do calls setUp when a turn is free, or returns the cause of ctx if that ends before.
func (t Turns) Do(ctx context.Context, setUp func() error) error {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t }()
	return setUp()
}

// Step is a part of a job's start that every host goes through.
type Step struct {
	Doing string // "connecting"
	Do    func(ctx context.Context, host int) error
}

// EveryHost takes all hosts through the steps in parallel, and returns an error or nil for each.
// note gets a line about hosts that are slow, once per step; nil means none is wanted.
func EveryHost(ctx context.Context, names []string, note func(string), steps ...Step) []error {
	errs := make([]error, len(names))
	turns := NewTurns()
	slow := newProgress(names)
	done := make(chan struct{})
	var wg, watch sync.WaitGroup
	if note != nil {
		watch.Go(func() { slow.watch(done, note) })
	}
	for i := range names {
		wg.Go(func() {
			errs[i] = turns.Do(ctx, func() error {
				defer slow.enter(i, "")
				for _, step := range steps {
					slow.enter(i, step.Doing)
					if err := step.Do(ctx, i); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	close(done)
	watch.Wait()
	return errs
}

// progress tracks the start of every host, and reports slow hosts once per step.
type progress struct {
	mu    sync.Mutex
	hosts []hostProgress
}

type hostProgress struct {
	name  string
	doing string // "": not begun, or done
	since time.Time
}

func newProgress(names []string) *progress {
	p := &progress{hosts: make([]hostProgress, len(names))}
	for i, name := range names {
		p.hosts[i].name = name
	}
	return p
}

func (p *progress) enter(i int, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[i].doing = doing
	p.hosts[i].since = time.Now()
}

// slow returns a line for each step that hosts have been at for too long.
func (p *progress) slow(now time.Time) (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var steps []string
	names := map[string][]string{}
	for i := range p.hosts {
		h := &p.hosts[i]
		if h.doing == "" || now.Sub(h.since) < slowTime {
			continue
		}
		if names[h.doing] == nil {
			steps = append(steps, h.doing)
		}
		names[h.doing] = append(names[h.doing], h.name)
		h.doing = "" // reported
	}
	for _, doing := range steps {
		lines = append(lines, fmt.Sprintf("%s: still %s after %d s", prose.List(names[doing]), doing,
			slowTime/time.Second))
	}
	return lines
}

// watch passes reports of slow hosts to note until done is closed. The time between reports
// doubles, so that thousands of slow hosts do not flood the user.
func (p *progress) watch(done <-chan struct{}, note func(string)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	pause := time.Second
	next := time.Time{}
	for {
		select {
		case now := <-ticker.C:
			if now.Before(next) {
				continue
			}
			for _, line := range p.slow(now) {
				note(line)
				next = now.Add(pause)
			}
			if next.After(now) {
				pause *= 2
			}
		case <-done:
			return
		}
	}
}
