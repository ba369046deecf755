package rails

import (
	"testing"
	"time"
)

func TestPick(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		lanes []prospect
		want  int
	}{
		"none":                           {nil, -1},
		"none usable":                    {[]prospect{{rate: 1e9}, {}}, -1},
		"alike":                          {[]prospect{{usable: true}, {usable: true}}, 0},
		"not the busy one":               {[]prospect{{usable: true, queued: 1 << 20}, {usable: true}}, 1},
		"not the dead one":               {[]prospect{{queued: 0}, {usable: true, queued: 1 << 20}}, 1},
		"the faster one, though busy":    {[]prospect{{usable: true, rate: 5e7}, {usable: true, rate: 5e8, queued: 100 << 10}}, 1},
		"the slower one, once that pays": {[]prospect{{usable: true, rate: 5e7}, {usable: true, rate: 5e8, queued: 1 << 20}}, 0},
		"the nearer one":                 {[]prospect{{usable: true, trip: 2 * ms}, {usable: true, trip: ms}}, 1},
		"one that is not measured":       {[]prospect{{usable: true, rate: 1e8, queued: 1}, {usable: true}}, 1},
	} {
		if got := pick(tc.lanes, 64<<10); got != tc.want {
			t.Errorf("%s: lane %d, want %d", name, got, tc.want)
		}
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
	if given[0] < 495 || given[0] > 505 {
		t.Errorf("lanes of 125 and 50 MB/s got %v of 700 segments", given)
	}
}

func TestMeter(t *testing.T) {
	var m meter
	now := time.Unix(1000, 0)
	written, queued := uint64(0), 0
	step := func(d time.Duration, done, more int) {
		now = now.Add(d)
		written += uint64(more)
		queued += more - done
		m.note(now, written, queued)
	}
	step(0, 0, 1<<20)
	for range 100 {
		step(time.Millisecond, 100e3, 100e3)
	}
	if m.rate < 99e6 || m.rate > 101e6 {
		t.Errorf("a lane of 100 MB/s is measured as %.3g", m.rate)
	}
	step(time.Second, queued, 0)
	step(time.Second, 0, 1<<20)
	step(time.Second, 1, 1) // it may have been idle meanwhile
	if m.rate < 99e6 {
		t.Errorf("a pause makes it %.3g", m.rate)
	}
	step(0, queued-100, 0)
	for range 100 {
		step(20*time.Millisecond, 100, 100)
	}
	if m.rate < 99e6 {
		t.Errorf("a few bytes make it %.3g", m.rate)
	}
	step(0, 0, 1<<20)
	for range 100 {
		step(20*time.Millisecond, 0, 0)
	}
	if m.rate > 1e6 {
		t.Errorf("a lane that stands still is measured as %.3g", m.rate)
	}
	step(0, queued, 0)
	for range 4 {
		now = now.Add(restTime)
		m.rest(now, queued, 100e6)
	}
	if m.rate < 90e6 || m.rate > 110e6 {
		t.Errorf("a lane that is never used stays at %.3g", m.rate)
	}
	step(0, 0, 1<<20)
	for range 1000 {
		step(time.Millisecond, 40e3, 40e3)
	}
	if m.rate < 39e6 || m.rate > 41e6 {
		t.Errorf("a lane that now has 40 MB/s is measured as %.3g", m.rate)
	}
}
