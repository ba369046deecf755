package rails

import "time"

// prospect describes a lane when the next segment is given to one.
type prospect struct {
	usable bool
	queued int           // bytes it has that the other end has not acknowledged
	rate   float64       // bytes a second; 0: not measured
	trip   time.Duration // shortest round trip; 0: not measured
}

// unmeasured is the rate in bytes a second of lanes of which none is measured.
const unmeasured = 1e9

// pick returns the lane on which size bytes would arrive first, or -1 if none is usable. A lane
// that is not measured counts as fast as the fastest, so that it is tried.
func pick(lanes []prospect, size int) int {
	fastest := 0.0
	for _, l := range lanes {
		if l.usable {
			fastest = max(fastest, l.rate)
		}
	}
	if fastest == 0 {
		fastest = unmeasured
	}
	best, soonest := -1, 0.0
	for i, l := range lanes {
		if !l.usable {
			continue
		}
		rate := l.rate
		if rate == 0 {
			rate = fastest
		}
		if eta := float64(l.queued+size)/rate + l.trip.Seconds()/2; best < 0 || eta < soonest {
			best, soonest = i, eta
		}
	}
	return best
}

const (
	sampleTime = 10 * time.Millisecond // the least that a rate is measured over
	pauseTime  = 50 * time.Millisecond // after this long a lane may have been idle in between
	minRate    = 1e5
	busyBytes  = maxSegment / 2 // a lane with fewer waits for data, or for a delayed acknowledgement
	restTime   = time.Second
)

// meter measures a lane's rate while it is busy.
type meter struct {
	rate  float64   // bytes a second; 0: not measured
	doubt bool      // the rate is a guess
	last  time.Time // when the rate was measured or guessed
	begun time.Time // of the sample; zero: the lane was idle
	done  int64     // acknowledged bytes then
}

// note records how many bytes a lane has got, and how many of them are not acknowledged.
func (m *meter) note(now time.Time, written uint64, queued int) {
	done := int64(written) - int64(queued)
	took := now.Sub(m.begun)
	switch {
	case queued < busyBytes:
		m.begun = time.Time{}
		return
	case m.begun.IsZero() || took > pauseTime && done != m.done:
		m.begun, m.done = now, done
		return
	case took < sampleTime:
		return
	}
	sample := max(float64(done-m.done)/took.Seconds(), minRate)
	if m.rate == 0 || m.doubt {
		m.rate, m.doubt = sample, false
	} else {
		m.rate += (sample - m.rate) / 4
	}
	m.begun, m.done, m.last = now, done, now
}

// rest raises the rate of a lane that is passed over for restTime, towards that of the fastest: it
// would not be measured again if it were never used.
func (m *meter) rest(now time.Time, queued int, fastest float64) {
	if m.rate > 0 && queued < busyBytes && now.Sub(m.last) >= restTime {
		m.rate, m.doubt, m.last = min(max(2*m.rate, fastest/8), fastest), true, now
	}
}
