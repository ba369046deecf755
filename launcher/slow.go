package launcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

// slowTime is how long a step of the start may take before the host is reported as slow.
const slowTime = 5 * time.Second

// step is a part of a job's start that every host goes through.
type step struct {
	doing string // "connecting"
	do    func(ctx context.Context, i int) error
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

func newProgress(hosts []PlannedHost) *progress {
	p := &progress{hosts: make([]hostProgress, len(hosts))}
	for i, h := range hosts {
		p.hosts[i].name = h.Name
	}
	return p
}

func (p *progress) enter(i int, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[i].doing, p.hosts[i].since = doing, time.Now()
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
		lines = append(lines, fmt.Sprintf("%s: still %s after %d s", prose.List(names[doing]), doing, slowTime/time.Second))
	}
	return lines
}

// watch passes reports of slow hosts to note until done is closed.
func (p *progress) watch(done <-chan struct{}, note func(string)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, line := range p.slow(now) {
				note(line)
			}
		case <-done:
			return
		}
	}
}
