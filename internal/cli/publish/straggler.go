package publish

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/watch"
	"github.com/gorun/gorun/internal/watch/straggler"
)

// lookTime is between two samples in which stragglers are looked for.
const lookTime = 5 * time.Second

// lateness finds the ranks that the others wait for, and says so.
type lateness struct {
	mu     sync.Mutex
	finder straggler.Finder
}

// follow looks until the job ends.
func (l *lateness) follow(w *watch.Watch, console *ui.UI) {
	_ = w.Follow(context.Background(), func(time.Duration) time.Duration { return lookTime }, func(s watch.Sample) error {
		for _, late := range l.add(s) {
			console.Notef("rank %d on %s is slow: in the last %.0f s the other ranks waited for it %.0f %% of the time", late.Rank, late.Host, straggler.Window.Seconds(), math.Floor(100*late.Cost))
		}
		return nil
	})
}

func (l *lateness) add(s watch.Sample) []straggler.Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finder.Add(s)
}

// Waits returns for each rank the part of the time in which the others waited for it in collectives, or nil if that is not known.
func (p *Publishing) Waits() map[int]float64 {
	p.late.mu.Lock()
	defer p.late.mu.Unlock()
	return p.late.finder.Costs()
}
