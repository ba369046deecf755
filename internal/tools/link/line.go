package link

import (
	"math/rand/v2"
	"time"
)

// Line is one direction of a link. The zero Line passes all frames at once.
type Line struct {
	Delay time.Duration // of each frame
	Rate  float64       // bits a second; 0: no limit
	Queue time.Duration // frames that would wait longer for Rate are dropped; 0: usualQueue
	Loss  float64       // part of the frames that is dropped, 0 to 1
}

// usualQueue is a buffer of a usual length.
const usualQueue = 50 * time.Millisecond

// line is a Line in use.
type line struct {
	Line
	random *rand.Rand
	free   time.Time // when all frames so far have left
}

// pass returns when a frame of so many bytes that enters at now arrives at the other end. It
// reports false for one that does not.
func (l *line) pass(now time.Time, bytes int) (arrival time.Time, ok bool) {
	if l.Loss > 0 && l.random.Float64() < l.Loss {
		return time.Time{}, false
	}
	if l.Rate > 0 {
		begin := now
		if l.free.After(now) {
			begin = l.free
		}
		queue := l.Queue
		if queue == 0 {
			queue = usualQueue
		}
		if begin.Sub(now) > queue {
			return time.Time{}, false
		}
		now = begin.Add(time.Duration(float64(bytes) * 8 / l.Rate * float64(time.Second)))
		l.free = now
	}
	return now.Add(l.Delay), true
}
