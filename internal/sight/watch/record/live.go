package record

import (
	"fmt"

	"github.com/gorun/gorun/internal/sight/watch"
)

// Live is the record of a running job in memory. It is not safe for concurrent use.
type Live struct {
	Record
	ended map[int]bool // ranks whose end was seen
}

// NewLive returns the record of a job without samples.
func NewLive(run Run) *Live {
	return &Live{Record: Record{Run: run, Cut: true}, ended: map[int]bool{}}
}

// Add adds a sample, and the ends of ranks that it tells. Beyond the bounds of [Read] it drops
// every other sample.
func (l *Live) Add(s watch.Sample) {
	if s.Seconds == 0 { // no rates before the ranks start
		return
	}
	l.Run.Size = max(l.Run.Size, s.Size)
	l.Points = append(l.Points, pointOf(s, l.Run.Began))
	if len(l.Points) >= maxPoints || len(l.Points)*l.values(len(l.Points)-1) > maxValues {
		l.thin()
	}
	for _, k := range s.Ranks {
		if k.Exit == nil || l.ended[k.Rank] {
			continue
		}
		l.ended[k.Rank] = true
		l.Events = append(l.Events, Event{
			At:      s.At,
			What:    "exited",
			Rank:    k.Rank,
			Host:    k.Host,
			Text:    describe(*k.Exit),
			Failed:  k.Exit.Code != 0 || k.Exit.Signal != 0,
			Stopped: k.Exit.Stopped,
		})
	}
}

func describe(e watch.Exit) string {
	switch {
	case e.Stopped:
		return "was stopped by gorun"
	case e.Signal != 0:
		return fmt.Sprintf("was killed by signal %d", e.Signal)
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}
