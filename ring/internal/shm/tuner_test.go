package shm

import "testing"

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
	for _, best := range []staging{throughCache, pastCache} {
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
		// The processors move, and the other staging becomes faster.
		best = pastCache - best
		if used := play(&tuner, 1000, cost); used[best] < 900 {
			t.Errorf("after a change the better staging %d was used %d times of 1000", best, used[best])
		}
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
	if used[pastCache] < 8500 {
		t.Errorf("the better staging was used %d times of 10000", used[pastCache])
	}
}
