package record

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
)

// A live record has the ends of ranks once, and bounded memory however long the job runs.
func TestLiveRecordIsBounded(t *testing.T) {
	began := time.Now()
	l := NewLive(Run{Size: 2, Began: began})
	l.Add(watch.Sample{At: began})
	check.Equal(t, len(l.Points), 0)
	for i := range 3 * maxPoints {
		l.Add(watch.Sample{
			At:      began.Add(time.Duration(i) * time.Second),
			Seconds: 1,
			Ranks:   []watch.Rank{{Rank: 0, State: "R"}, {Rank: 1, Host: "f1", Exit: &watch.Exit{Signal: 9}}},
			Hosts:   []watch.Host{{Host: "f1"}},
		})
	}
	check.That(t, len(l.Points) < maxPoints && len(l.Points) > maxPoints/3, "%d points", len(l.Points))
	last := l.Points[len(l.Points)-1]
	check.That(t, last.At > 3*maxPoints-3 && len(last.Hosts) == 1, "%+v", last)
	check.That(t, len(l.Events) == 1 && l.Events[0].Failed && l.Events[0].Text == "was killed by signal 9", "%+v",
		l.Events)
}
