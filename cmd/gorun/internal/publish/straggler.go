package publish

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/straggler"
	"github.com/gorun/gorun/launcher"
)

// lookTime is the interval of samples in the search for stragglers.
const lookTime = 5 * time.Second

// maxTold bounds the reported findings of a host: hostile ranks may alternate between slow and
// fast.
const maxTold = 100

// Slow is which stragglers the launcher is told of.
type Slow struct {
	Times float64 // how many times as long as the others they take, at least; 0: none
	Tell  chan<- launcher.SlowRank
}

// tell tells the launcher of a straggler. If it is busy, the next sample tells it again.
func (s Slow) tell(late straggler.Finding) {
	if s.Times == 0 || late.By != straggler.Collectives || late.Times() < s.Times {
		return
	}
	text := fmt.Sprintf("takes %.1f times as long as the others", late.Times())
	select {
	case s.Tell <- launcher.SlowRank{Rank: late.Rank, Host: late.Host, Text: text}:
	default:
	}
}

// lateness finds stragglers and reports them.
type lateness struct {
	mu     sync.Mutex
	finder straggler.Finder
	told   map[string]int // findings that add has returned, by host
}

// follow searches until the job ends. notify gets each finding and the note about it, and slow the
// stragglers of each sample.
func (l *lateness) follow(w *watch.Watch, console *ui.UI, notify func(straggler.Finding, string),
	slow Slow) {
	_ = w.Follow(context.Background(), func(time.Duration) time.Duration {
		return lookTime
	}, func(s watch.Sample) error {
		for _, late := range l.add(s) {
			text := lateText(late)
			console.Notef("%s", text)
			notify(late, text)
		}
		for _, late := range l.now() {
			slow.tell(late)
		}
		return nil
	})
}

// lateText describes for how much of the time a rank kept the others waiting, and the source of
// that.
func lateText(late straggler.Finding) string {
	rank := fmt.Sprintf("rank %d on %s", late.Rank, late.Host)
	last := straggler.Window.Seconds()
	percent := math.Floor(100 * late.Cost)
	switch late.By {
	case straggler.CPU:
		return fmt.Sprintf("%s may be slow: in the last %.0f s it worked while the other ranks were idle, %.0f %% of "+
			"the time", rank, last, percent)
	case straggler.GPU:
		return fmt.Sprintf("%s may be slow: in the last %.0f s its GPU was idle %.0f %% more of the time than those "+
			"of the other ranks", rank, last, percent)
	}
	return fmt.Sprintf("%s is slow: in the last %.0f s the other ranks waited for it %.0f %% of the time", rank, last,
		percent)
}

// add adds a sample and returns the new findings to report.
func (l *lateness) add(s watch.Sample) (all []straggler.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = map[string]int{}
	}
	for _, late := range l.finder.Add(s) {
		if l.told[late.Host] < maxTold {
			l.told[late.Host]++
			all = append(all, late)
		}
	}
	return all
}

func (l *lateness) now() []straggler.Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finder.Now()
}

// Waits returns for each rank the part of the time in which the others waited for it in
// collectives, or nil if that is not known.
func (p *Publishing) Waits() map[int]float64 {
	p.late.mu.Lock()
	defer p.late.mu.Unlock()
	return p.late.finder.Costs()
}
