package straggler

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
)

// sample returns a sample of ranks that spend these parts of the time in collectives. Less than 0
// is a rank that has ended.
func sample(second int, shares ...float64) watch.Sample {
	s := watch.Sample{At: time.Unix(int64(second), 0)}
	for rank, share := range shares {
		r := watch.Rank{
			Rank: rank,
			Host: fmt.Sprint("f", rank/2),
			PID:  100 + rank,
			Ring: &watch.Ring{Share: share},
		}
		if share < 0 {
			r.Exit = &watch.Exit{}
		}
		s.Ranks = append(s.Ranks, r)
	}
	return s
}

func TestStragglerIsFound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		shares []float64
		want   []Finding
	}{
		{"equal ranks", []float64{0.2, 0.22, 0.21, 0.2}, nil},
		{"one is slow", []float64{0.30, 0.31, 0.29, 0.10}, []Finding{{3, "f1", 0.20, Collectives}}},
		{"just too little", []float64{0.30, 0.30, 0.21, 0.30}, nil},
		{"two of five, the slower one first", []float64{0.5, 0.3, 0.5, 0.1, 0.5},
			[]Finding{{3, "f1", 0.4, Collectives}, {1, "f0", 0.2, Collectives}}},
		{"two ranks", []float64{0.0, 0.5}, []Finding{{0, "f0", 0.5, Collectives}}},
		{"one that is fast", []float64{0.1, 0.1, 0.9, 0.1}, nil},
		{"alone", []float64{0}, nil},
	} {
		var f Finder
		var all []Finding
		for second := 0; second <= 300; second += 10 {
			found := f.Add(sample(second, tc.shares...))
			check.That(t, found == nil || second >= 45, "%s: found after %d s", tc.name, second)
			all = append(all, found...)
		}
		if !slices.EqualFunc(all, tc.want, func(a, b Finding) bool {
			return a.Rank == b.Rank && a.Host == b.Host && a.Cost-b.Cost < 1e-6 && b.Cost-a.Cost < 1e-6
		}) {
			t.Errorf("%s: %v, want %v", tc.name, all, tc.want)
		}
	}
}

// A short delay is none of a straggler, one that comes again is said again, and the ends of ranks
// make none.
func TestStragglerOfAWhile(t *testing.T) {
	var f Finder
	found := 0
	run := func(seconds, from int, shares ...float64) int {
		for second := from; second < from+seconds; second += 10 {
			found += len(f.Add(sample(second, shares...)))
		}
		return from + seconds
	}
	at := run(100, 0, 0.3, 0.3, 0.3)
	at = run(10, at, 0.6, 0.6, 0.2)
	at = run(100, at, 0.3, 0.3, 0.3)
	check.That(t, found == 0, "found %d by a short delay", found)
	at = run(200, at, 0.3, 0.3, 0.0)
	check.Equal(t, found, 1, "found")
	at = run(100, at, 0.3, 0.3, 0.3)
	at = run(200, at, 0.3, 0.3, 0.0)
	check.Equal(t, found, 2, "found")
	at = run(200, at, 0.3, 0.0, -1)
	check.That(t, found == 2, "found %d when a rank has ended", found)
	costs := f.Costs()
	check.That(t, len(costs) == 3 && costs[2] >= 0.15 && costs[2] <= 0.25 && costs[0] <= 0.01, "%v", costs)
	again := sample(at, 0.5, 0.0)
	again.Ranks[0].PID = 7
	f.Add(again)
	check.That(t, len(f.Costs()) == 2, "%v after another start", f.Costs())
}

// A host may spawn many ranks, of which some come and go or use no ring: they make no rank of the
// launch a straggler, and hide none.
func TestSpawnedRanksDoNotCount(t *testing.T) {
	for _, slow := range []bool{false, true} {
		var f Finder
		var all []Finding
		for second := 0; second <= 120; second += 10 {
			shares := []float64{0.3, 0.3, 0.3, 0.3}
			if slow {
				shares[2] = 0.1
			}
			s := sample(second, append(shares, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.0)...)
			for i := len(shares); i < len(s.Ranks); i++ {
				s.Ranks[i].Spawned = true
			}
			s.Ranks[len(shares)].PID = second
			s.Ranks[len(shares)+1].Ring = nil
			all = append(all, f.Add(s)...)
		}
		found := len(all) == 1 && all[0].Rank == 2
		check.That(t, slow && found || !slow && len(all) == 0, "rank 2 is slow: %v; %+v", slow, all)
		check.That(t, len(f.Costs()) == 4, "%v", f.Costs())
	}
}

// idle returns a sample of ranks without ring.
func idle(second int, cpu []float64, gpus []float64) watch.Sample {
	s := watch.Sample{At: time.Unix(int64(second), 0)}
	for rank, cores := range cpu {
		r := watch.Rank{
			Rank: rank,
			Host: "f1",
			PID:  100 + rank,
			CPU:  cores,
		}
		if gpus != nil {
			r.GPUs = []int{rank}
			r.GPUBusy = &gpus[rank]
		}
		s.Ranks = append(s.Ranks, r)
	}
	return s
}

// Without ring a rank that works while the others are idle is late, and so is one whose GPU waits
// for it.
func TestStragglerWithoutRingIsFound(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cpu, gpus []float64
		want      int // -1: nobody
		cost      float64
		by        Basis
	}{
		{"equal ranks", []float64{0.99, 1, 0.98, 1, 1, 0.99, 1, 1}, nil, -1, 0, CPU},
		{"one does 20 % more", []float64{0.83, 0.83, 0.84, 1, 0.83, 0.82, 0.83, 0.83}, nil, 3, 0.17, CPU},
		{"with four threads", []float64{3.3, 3.31, 4, 3.3}, nil, 2, 0.175, CPU},
		{"two do", []float64{0.8, 1, 1, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8}, nil, -2, 0.2, CPU},
		{"each rank has work of its own", []float64{0.2, 0.5, 0.7, 1, 0.4, 0.9, 0.1, 0.6}, nil, -1, 0, CPU},
		{"one talks, and none works", []float64{0.05, 0.01, 0.01, 0.01}, nil, -1, 0, CPU},
		{"three ranks", []float64{0.8, 0.8, 1}, nil, -1, 0, CPU},
		{"all are idle", []float64{0, 0, 0, 0}, nil, -1, 0, CPU},
		{"a GPU waits for its rank", []float64{1, 1, 1, 1}, []float64{98, 70, 97, 99}, 1, 0.28, GPU},
		{"equal GPUs", []float64{1, 2, 3, 4}, []float64{98, 97, 97, 99}, -1, 0, GPU},
	} {
		var f Finder
		var all []Finding
		for second := 0; second <= 120; second += 5 {
			all = append(all, f.Add(idle(second, tc.cpu, tc.gpus))...)
		}
		switch {
		case tc.want == -2:
			check.That(t, len(all) == 2, "%s: %+v", tc.name, all)
		case tc.want == -1:
			check.That(t, len(all) == 0 && f.Costs() == nil, "%s: %+v, %v", tc.name, all, f.Costs())
		case len(f.Now()) != 1 || f.Now()[0].Rank != tc.want:
			t.Errorf("%s: now %+v", tc.name, f.Now())
		case len(all) != 1 || all[0].Rank != tc.want || all[0].By != tc.by || all[0].Cost < tc.cost-0.02 ||
			all[0].Cost > tc.cost+0.02:
			t.Errorf("%s: %+v", tc.name, all)
		case f.Costs()[tc.want] < tc.cost-0.02:
			t.Errorf("%s: costs %v", tc.name, f.Costs())
		}
	}
	var f Finder // ranks that share a GPU
	for second := 0; second <= 120; second += 5 {
		s := idle(second, []float64{1, 1, 1, 1}, []float64{98, 50, 97, 99})
		s.Ranks[1].GPUs = []int{0}
		if found := f.Add(s); found != nil {
			t.Fatalf("%+v", found)
		}
	}
}

// slowCosts returns costs by their definition, which takes the square of the ranks' number.
func slowCosts(waits map[int]float64, cores map[int]float64, basis Basis) map[int]float64 {
	all := map[int]float64{}
	for rank := range waits {
		var others []float64
		for other, w := range waits {
			if other != rank {
				others = append(others, w)
			}
		}
		slices.Sort(others)
		usual := others[(len(others)-1)/2]
		all[rank] = max(0, usual-waits[rank])
		var off []float64
		for _, v := range others {
			off = append(off, math.Abs(v-usual))
		}
		slices.Sort(off)
		if basis != Collectives && off[len(off)*3/4] >= all[rank]/3 || basis == CPU && cores[rank] < working {
			all[rank] = 0
		}
	}
	return all
}

// A host may have tens of thousands of ranks that it has spawned: costs take no memory for each
// pair of ranks, and are those of their definition.
func TestCostsOfManyRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	found := 0
	for _, basis := range []Basis{Collectives, CPU, GPU} {
		for range 500 {
			sums := map[int]float64{}
			for rank := range 2 + rng.IntN(12) {
				sums[rank] = 0.9 + float64(rng.IntN(4))/100 // some are equal
			}
			if rng.IntN(2) == 0 {
				sums[rng.IntN(len(sums))] = float64(rng.IntN(8)) / 2
			}
			waits := map[int]float64{}
			for rank, sum := range sums {
				switch basis {
				case Collectives:
					waits[rank] = sum
				case GPU:
					waits[rank] = 1 - sum
				case CPU:
					waits[rank] = 1 - sum/slices.Max(slices.Collect(maps.Values(sums)))
				}
			}
			got := costs(sums, 1, basis)
			check.That(t, maps.Equal(got, slowCosts(waits, sums, basis)), "%s of %v: %v", basis, sums, got)
			for _, cost := range got {
				if cost >= Threshold {
					found++
				}
			}
		}
	}
	check.That(t, found > 100, "%d costs of stragglers: the test tests little", found)
	sums := map[int]float64{}
	for rank := range 3000 {
		sums[rank] = 1
	}
	allocated := testing.AllocsPerRun(1, func() { costs(sums, 1, CPU) })
	check.That(t, allocated < 1000, "%v pieces of memory for %d ranks", allocated, len(sums))
}
