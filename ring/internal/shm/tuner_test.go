package shm

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// play runs calls whose cost depends on the staging, and counts those of each.
func play(t *tuner, calls int, cost func(staging) float64) (used [stagings]int) {
	mode := throughCache
	for range calls {
		used[mode]++
		mode = t.next(mode, cost(mode))
	}
	return used
}

func TestTunerFindsTheFasterStaging(t *testing.T) {
	for best := range stagings {
		var tuner tuner
		cost := func(s staging) float64 {
			if s == best {
				return 1
			}
			return 1.5
		}
		if used := play(&tuner, 1000, cost); used[best] < 950 {
			t.Errorf("the better staging %d was used %d times of 1000", best, used[best])
		}
		// The processors move, and another staging becomes faster.
		best = (best + 1) % stagings
		if used := play(&tuner, 1000, cost); used[best] < 850 {
			t.Errorf("after a change the better staging %d was used %d times of 1000", best, used[best])
		}
	}
}

// Once the others stay slower, few calls try them.
func TestTunerTriesLess(t *testing.T) {
	var tuner tuner
	cost := func(s staging) float64 { return []float64{2, 1, 3}[s] }
	play(&tuner, 1000, cost)
	if used := play(&tuner, 10000, cost); used[streamed] < 9900 || used[throughCache] == 0 || used[pastCache] == 0 {
		t.Errorf("the stagings were used %d times", used)
	}
}

func TestTunerSurvivesOutliers(t *testing.T) {
	var tuner tuner
	n := 0
	used := play(&tuner, 10000, func(s staging) float64 {
		n++
		switch {
		case n%97 == 0:
			return 1000 // the rank was not running
		case s == pastCache:
			return 1
		}
		return 2
	})
	check.That(t, used[pastCache] >= 8500, "the better staging was used %d times of 10000", used[pastCache])
}

// The first call after a change finds the cache as another staging left it, and is slow whatever
// the staging.
func TestTunerJudgesTheSecondCall(t *testing.T) {
	for best := range stagings {
		var tuner tuner
		last := stagings
		used := play(&tuner, 1000, func(s staging) float64 {
			cost := 1.5
			switch {
			case s != last:
				cost = 4
			case s == best:
				cost = 1
			}
			last = s
			return cost
		})
		check.That(t, used[best] >= 900, "the better staging %d was used %d times of 1000", best, used[best])
	}
}

func TestSmallResultsAreNotStreamed(t *testing.T) {
	for s := range stagings {
		check.Equal(t, s.of(minStreamed), s, "staging", s, "of a large result")
	}
	check.That(t, streamed.of(minStreamed-1) == throughCache && pastCache.of(1) == pastCache,
		"a small result is streamed, or its slots are not written past the cache")
}
