package rails

import "time"

// prospect is the state of a lane, by which the lane of the next segment is chosen.
type prospect struct {
	usable bool
	queued int           // bytes it has that the other end has not acknowledged
	rate   float64       // bytes a second; 0: not measured
	trip   time.Duration // shortest round trip; 0: not measured
	due    bool          // must be tried

	meter   *meter
	written uint64 // bytes the kernel has got for it
	pending int    // queued bytes that the kernel has not accepted
}

// assign measures the lanes and returns the one on which size bytes would arrive first, which gets
// them. It returns -1 if that has a segment pending, or none is usable.
func assign(now time.Time, lanes []prospect, size int) int {
	limit := fastest(lanes)
	for i := range lanes {
		l := &lanes[i]
		l.meter.note(now, l.written, l.queued-l.pending, limit)
		l.rate = l.meter.rate
		l.due = l.meter.due(l.queued, size)
	}
	i := pick(lanes, size)
	if i < 0 || lanes[i].pending > 0 {
		return -1
	}
	for _, l := range lanes {
		l.meter.pass(size)
	}
	lanes[i].meter.give(now, lanes[i].written, size, lanes[i].due)
	return i
}

// unmeasured is the rate in bytes a second of lanes of which none is measured.
const unmeasured = 1e9

// pick returns the lane on which size bytes would arrive first, or -1 if none is usable. A lane
// that is not measured counts as fast as the fastest, so that it is tried, and one that is due for
// a trial goes first.
func pick(lanes []prospect, size int) int {
	limit := fastest(lanes)
	best := -1
	soonest := 0.0
	for i, l := range lanes {
		if !l.usable {
			continue
		}
		if l.due {
			return i
		}
		rate := l.rate
		if rate == 0 {
			rate = limit
		}
		if eta := float64(l.queued+size)/rate + l.trip.Seconds()/2; best < 0 || eta < soonest {
			best = i
			soonest = eta
		}
	}
	return best
}

// fastest returns the highest measured rate of the usable lanes.
func fastest(lanes []prospect) float64 {
	most := 0.0
	for _, l := range lanes {
		if l.usable {
			most = max(most, l.rate)
		}
	}
	if most == 0 {
		return unmeasured
	}
	return most
}

const (
	sampleTime = 10 * time.Millisecond // least time over which a rate is measured
	pauseTime  = 50 * time.Millisecond // after this long a lane may have been idle in between
	minRate    = 1e5
	busyBytes  = maxSegment / 2 // a lane with fewer waits for data, or for a delayed acknowledgement
	// Before the next trial the other lanes carry trialShare times what they carried during the
	// last, or what the fastest carries in trialPause: a network that was cut may be whole again.
	trialShare = 16
	trialPause = 3 * time.Second
)

// meter measures a lane's rate while it is busy. A lane that gets no segments is tried with one at
// intervals: its last rate may be that of a rank's pause, and would not be measured again.
type meter struct {
	rate      float64   // bytes a second; 0: not measured
	estimated bool      // the rate is a guess
	begun     time.Time // start of the sample; zero: the lane was idle
	done      int64     // acknowledged bytes then

	passed float64   // bytes that other lanes were given since this one was given enough to measure
	pause  float64   // bytes of other lanes until the next trial
	tried  time.Time // start of the trial; zero: there is none
	before int64     // acknowledged bytes then
}

// note records how many bytes a lane has got, and how many of them are not acknowledged. Limit is
// the rate of the fastest lane.
func (m *meter) note(now time.Time, written uint64, queued int, limit float64) {
	done := int64(written) - int64(queued)
	if !m.tried.IsZero() && queued < busyBytes {
		m.endTrial(now, done, limit)
	}
	took := now.Sub(m.begun)
	switch {
	case queued < busyBytes:
		m.begun = time.Time{}
		return
	case m.begun.IsZero() || took > pauseTime && done != m.done:
		m.begun = now
		m.done = done
		return
	case took < sampleTime, took < pauseTime && done == m.done:
		return // a short stillness is that of a rank which does not run
	}
	sample := max(float64(done-m.done)/took.Seconds(), minRate)
	if m.rate == 0 || m.estimated {
		m.rate = sample
		m.estimated = false
	} else {
		m.rate += (sample - m.rate) / 4
	}
	m.begun = now
	m.done = done
}

// due reports whether a lane with so many bytes queued must be tried with size bytes.
func (m *meter) due(queued, size int) bool {
	return queued == 0 && size >= busyBytes && m.rate > 0 && m.passed >= max(m.pause, trialShare*maxSegment)
}

// give records that the lane gets the next segment, of size bytes, in a trial if it was due. A
// segment of less than busyBytes says nothing of the rate, and is not recorded: a slow lane that
// gets those alone would never be tried.
func (m *meter) give(now time.Time, written uint64, size int, due bool) {
	if size < busyBytes {
		return
	}
	m.tried = time.Time{}
	if due {
		m.tried = now
		m.before = int64(written)
	}
	m.passed = 0
	m.pause = 0
}

// pass records that another lane gets a segment.
func (m *meter) pass(size int) { m.passed += float64(size) }

// endTrial raises the rate of a lane that delivered its segment sooner than that rate allows. It is
// a guess of at most limit, since a buffer on the way may have taken the segment.
func (m *meter) endTrial(now time.Time, done int64, limit float64) {
	rate := max(float64(done-m.before)/max(now.Sub(m.tried).Seconds(), 1e-9), minRate)
	m.tried = time.Time{}
	m.pause = min(trialShare*maxSegment*limit/rate, limit*trialPause.Seconds())
	if rate = min(rate, limit); rate > m.rate {
		m.rate = rate
		m.estimated = true
	}
}
