package watch

import (
	"bytes"
	"sync"
	"time"
)

// lines counts the ranks' output.
type lines struct {
	mu     sync.Mutex
	counts map[int]count // counts by rank
}

type count struct{ lines, bytes int64 }

// add counts a piece of a rank's output.
func (l *lines) add(rank int, data []byte) {
	if len(data) == 0 {
		return
	}
	n := int64(bytes.Count(data, []byte("\n")))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[int]count{}
	}
	c := l.counts[rank]
	l.counts[rank] = count{c.lines + n, c.bytes + int64(len(data))}
}

func (l *lines) of(rank int) count {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[rank]
}

// rater turns the counts of one follower into rates.
type rater struct {
	at     time.Time
	before map[int]count
}

// fill sets the output of ranks at a time.
func (r *rater) fill(ranks []Rank, l *lines, now time.Time) {
	took := time.Duration(0)
	next := make(map[int]count, len(ranks))
	if !r.at.IsZero() {
		took = now.Sub(r.at)
	}
	for i := range ranks {
		c := l.of(ranks[i].Rank)
		b := r.before[ranks[i].Rank]
		ranks[i].LinesTotal = c.lines
		ranks[i].OutputTotal = c.bytes
		ranks[i].Lines = perSecond(b.lines, c.lines, took)
		ranks[i].Output = perSecond(b.bytes, c.bytes, took)
		next[ranks[i].Rank] = c
	}
	r.at = now
	r.before = next
}
