package rails

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestPick(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		lanes []prospect
		want  int
	}{
		"none":             {nil, -1},
		"none usable":      {[]prospect{{rate: 1e9}, {}}, -1},
		"alike":            {[]prospect{{usable: true}, {usable: true}}, 0},
		"not the busy one": {[]prospect{{usable: true, queued: 1 << 20}, {usable: true}}, 1},
		"not the dead one": {[]prospect{{queued: 0}, {usable: true, queued: 1 << 20}}, 1},
		"the faster one, though busy": {[]prospect{{usable: true, rate: 5e7},
			{usable: true, rate: 5e8, queued: 100 << 10}}, 1},
		"the slower one, once that pays": {[]prospect{{usable: true, rate: 5e7},
			{usable: true, rate: 5e8, queued: 1 << 20}}, 0},
		"the nearer one":           {[]prospect{{usable: true, trip: 2 * ms}, {usable: true, trip: ms}}, 1},
		"one that is due":          {[]prospect{{usable: true, rate: 1e8}, {usable: true, rate: 1e5, due: true}}, 1},
		"one that is not measured": {[]prospect{{usable: true, rate: 1e8, queued: 1}, {usable: true}}, 1},
	} {
		check.Equal(t, pick(tc.lanes, 64<<10), tc.want, name, "lane")
	}
}

// Shares follow the rates, whatever those are.
func TestPickSharesByRate(t *testing.T) {
	lanes := []prospect{{usable: true, rate: 125e6}, {usable: true, rate: 50e6}}
	given := [2]int{}
	const size = 64 << 10
	for range 700 {
		i := pick(lanes, size)
		given[i]++
		lanes[i].queued += size
	}
	check.That(t, given[0] >= 495 && given[0] <= 505, "lanes of 125 and 50 MB/s got %v of 700 segments", given)
}

func TestMeter(t *testing.T) {
	var m meter
	now := time.Unix(1000, 0)
	written := uint64(0)
	queued := 0
	step := func(d time.Duration, done, more int) {
		now = now.Add(d)
		written += uint64(more)
		queued += more - done
		m.note(now, written, queued, unmeasured)
	}
	step(0, 0, 1<<20)
	for range 100 {
		step(time.Millisecond, 100e3, 100e3)
	}
	check.That(t, m.rate >= 99e6 && m.rate <= 101e6, "a lane of 100 MB/s is measured as %.3g", m.rate)
	step(time.Second, queued, 0)
	step(time.Second, 0, 1<<20)
	step(time.Second, 1, 1) // it may have been idle meanwhile
	check.That(t, m.rate >= 99e6, "a pause makes it %.3g", m.rate)
	step(0, queued-100, 0)
	for range 100 {
		step(20*time.Millisecond, 100, 100)
	}
	check.That(t, m.rate >= 99e6, "a few bytes make it %.3g", m.rate)
	step(0, 0, 1<<20)
	for range 100 {
		step(20*time.Millisecond, 0, 0)
	}
	check.That(t, m.rate <= 1e6, "a lane that stands still is measured as %.3g", m.rate)
	step(0, queued, 0)
	step(0, 0, 1<<20)
	for range 1000 {
		step(time.Millisecond, 40e3, 40e3)
	}
	check.That(t, m.rate >= 39e6 && m.rate <= 41e6, "a lane that now has 40 MB/s is measured as %.3g", m.rate)
}

// road is a lane that delivers at a constant rate, except while it stands still.
type road struct {
	meter   meter
	rate    float64 // bytes a second
	still   time.Duration
	written uint64
	queued  float64
	carried float64
}

// drive sends segments of these sizes in turn over roads for so long, as fast as they take them. It
// returns the share that each delivers.
func drive(roads []*road, span time.Duration, sizes ...int) (shares []float64) {
	const step = 100 * time.Microsecond
	const room = 192 << 10
	total := 0.0
	given := 0
	for at := time.Duration(0); at < span; at += step {
		for _, r := range roads {
			if at >= r.still {
				sent := min(r.queued, r.rate*step.Seconds())
				r.queued -= sent
				r.carried += sent
				total += sent
			}
		}
		for {
			var lanes []prospect
			for _, r := range roads {
				pending := max(0, int(r.queued)-room)
				lanes = append(lanes, prospect{
					usable:  true,
					queued:  int(r.queued),
					rate:    r.meter.rate,
					meter:   &r.meter,
					written: r.written - uint64(pending),
					pending: pending,
				})
			}
			size := sizes[given%len(sizes)]
			i := assign(time.Unix(1000, 0).Add(at), lanes, size)
			if i < 0 {
				break
			}
			roads[i].queued += float64(size)
			roads[i].written += uint64(size)
			given++
		}
	}
	for _, r := range roads {
		shares = append(shares, r.carried/total)
	}
	return shares
}

// A rank that does not run for a moment must not make a fast lane useless for seconds.
func TestLaneThatStoodStillIsUsed(t *testing.T) {
	for _, still := range []time.Duration{0, 15 * time.Millisecond, 60 * time.Millisecond} {
		roads := []*road{{rate: 50e6}, {rate: 125e6, still: still}}
		if shares := drive(roads, 500*time.Millisecond, maxSegment); shares[1] < 0.6 {
			t.Errorf("a lane of 125 MB/s that stands still for %v carries %.2f beside one of 50 MB/s", still, shares[1])
		}
	}
}

// A lane whose measured rate is far too low is tried soon, and then used.
func TestMisjudgedLaneIsTried(t *testing.T) {
	roads := []*road{{rate: 50e6}, {rate: 125e6}}
	roads[0].meter.rate = 50e6
	roads[1].meter.rate = minRate
	if shares := drive(roads, 500*time.Millisecond, maxSegment); shares[1] < 0.6 {
		t.Errorf("a lane of 125 MB/s that was taken for one of 0.1 carries %.2f beside one of 50 MB/s", shares[1])
	}
}

// Short messages between the long ones go to the lane that is taken for slow, since it has nothing
// to send. They must not put off its trial.
func TestMisjudgedLaneIsTriedAmongShortMessages(t *testing.T) {
	roads := []*road{{rate: 50e6}, {rate: 125e6}}
	roads[0].meter.rate = 50e6
	roads[1].meter.rate = 1e6
	if shares := drive(roads, 500*time.Millisecond, 64, maxSegment, maxSegment, maxSegment); shares[1] < 0.6 {
		t.Errorf("a lane of 125 MB/s that was taken for one of 1 carries %.2f beside one of 50 MB/s", shares[1])
	}
}

// Trials of a slow lane take little from the fast one.
func TestTrialsOfASlowLaneAreRare(t *testing.T) {
	roads := []*road{{rate: 1e9}, {rate: 1e6}}
	roads[0].meter.rate = 1e9
	roads[1].meter.rate = 1e6
	drive(roads, 3*time.Second, maxSegment)
	late := roads[1].carried / roads[1].rate
	check.That(t, late <= 0.3, "the slow lane has a segment %.2f of 3 s", late)
}

// A lane whose trial met a cut network is tried again soon after the network is whole.
func TestLaneIsTriedAgainAfterACut(t *testing.T) {
	const limit = 40e6
	var m meter
	now := time.Now()
	m.rate = minRate
	m.give(now, 0, maxSegment, true)
	m.note(now.Add(5*time.Second), maxSegment, 0, limit)
	m.pass(int(limit * trialPause.Seconds()))
	check.That(t, m.due(0, maxSegment), "it is not due after %g bytes on another lane, but after %g", m.passed, m.pause)
}
