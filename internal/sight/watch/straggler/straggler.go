// Package straggler finds the ranks that the others of a job wait for.
package straggler

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/sight/watch"
)

const (
	// Window is the time for which a rank must be late to be a straggler.
	Window = 45 * time.Second
	// Threshold is the least cost of a straggler.
	Threshold = 0.10

	leastRanks = 4   // ranks needed for a judgement without ring
	working    = 0.8 // cores of a rank that never waits
)

// Basis is the evidence for a straggler.
type Basis string

// Collectives are those of ring: their records are exact. Without them the others' idle time tells
// of a rank that works while they wait, and that of its own GPU tells of a rank that keeps it
// waiting.
const (
	Collectives Basis = "collectives"
	CPU         Basis = "cpu"
	GPU         Basis = "gpu"
)

// Finding is a straggler. Its cost is the part of the time in which the others waited for it, from
// the medians of the others:
//   - by collectives: the time that they spent there, less its own. All ranks spend the same time
//     in moving data, and a rank that comes last waits for nobody.
//   - by CPU: the time that they were idle, less its own. The rank that used most CPU counts as
//     never idle.
//   - by GPU: the time that its GPU was idle, less that of theirs. A GPU that waits for others in
//     NCCL is busy.
type Finding struct {
	Rank int
	Host string
	Cost float64
	By   Basis
}

// Times returns how many times as long as the others the rank takes for its part of the work.
func (f Finding) Times() float64 { return 1 / (1 - min(f.Cost, 0.99)) }

// Finder finds stragglers in the samples of a job. The zero Finder is ready for use.
type Finder struct {
	pids   map[int]int // process IDs by rank
	basis  Basis
	recent []point
	slow   map[int]Finding // ranks that are slow now
	ever   bool            // whether one was ever found

	sums  map[int]float64 // sums over all points, by rank
	count int
}

// point has a value of each rank before a sample: by collectives the share of time in them, by CPU
// the used cores, by GPU the share of time that it was idle.
type point struct {
	at     time.Time
	values map[int]float64
}

// Add adds a sample and returns the ranks that have become stragglers.
func (f *Finder) Add(s watch.Sample) []Finding {
	basis := basisOf(s)
	p := point{s.At, map[int]float64{}}
	pids := map[int]int{}
	hosts := map[int]string{}
	for _, r := range members(s) {
		if basis == "" {
			f.recent = nil
			f.slow = map[int]Finding{} // those that are left wait for another reason
			return nil
		}
		p.values[r.Rank] = value(r, basis)
		pids[r.Rank] = r.PID
		hosts[r.Rank] = r.Host
	}
	if !maps.Equal(f.pids, pids) || f.basis != basis {
		*f = Finder{
			pids:  pids,
			basis: basis,
			slow:  map[int]Finding{},
			sums:  map[int]float64{},
		} // other processes, such as those of another epoch
	}
	f.recent = append(f.recent, p)
	for len(f.recent) > 1 && p.at.Sub(f.recent[1].at) >= Window {
		f.recent = f.recent[1:]
	}
	for rank, v := range p.values {
		f.sums[rank] += v
	}
	f.count++
	if p.at.Sub(f.recent[0].at) < Window {
		return nil
	}
	return f.news(hosts)
}

// members returns the ranks that wait for each other. Spawned ranks have worlds of their own, and a
// hostile host could spawn so many that ranks of others seem slow, or that none does.
func members(s watch.Sample) []watch.Rank {
	return slices.DeleteFunc(slices.Clone(s.Ranks), func(r watch.Rank) bool {
		return r.State == watch.Spare || r.Spawned
	})
}

// basisOf returns the evidence that is available for the ranks, or "" if none is: some ranks have
// ended, or only some use ring.
func basisOf(s watch.Sample) Basis {
	ring := 0
	gpus := 0
	ranks := members(s)
	for _, r := range ranks {
		if r.Exit != nil || r.PID == 0 {
			return ""
		}
		if r.Ring != nil {
			ring++
		}
		if r.GPUBusy != nil {
			gpus++
		}
	}
	switch n := len(ranks); {
	case ring == n:
		return Collectives
	case ring > 0, n < leastRanks:
		return ""
	case gpus == n && !shared(s):
		return GPU
	case gpus == 0:
		return CPU
	}
	return ""
}

// shared reports whether ranks share a GPU, whose load then has no known source.
func shared(s watch.Sample) bool {
	type place struct {
		host  string
		index int
	}
	used := map[place]bool{}
	for _, r := range s.Ranks {
		for _, g := range r.GPUs {
			if used[place{r.Host, g}] {
				return true
			}
			used[place{r.Host, g}] = true
		}
	}
	return false
}

func value(r watch.Rank, basis Basis) float64 {
	switch basis {
	case Collectives:
		return r.Ring.Share
	case GPU:
		return 1 - *r.GPUBusy/100
	}
	return r.CPU
}

// news returns the window's new stragglers.
func (f *Finder) news(hosts map[int]string) (all []Finding) {
	sums := map[int]float64{}
	for _, p := range f.recent[1:] { // the first point covers the time before the window
		for rank, v := range p.values {
			sums[rank] += v
		}
	}
	for rank, cost := range costs(sums, len(f.recent)-1, f.basis) {
		_, known := f.slow[rank]
		found := Finding{rank, hosts[rank], cost, f.basis}
		switch {
		case cost < Threshold/2:
			delete(f.slow, rank)
		case known:
			f.slow[rank] = found
		case cost >= Threshold:
			f.slow[rank] = found
			f.ever = true
			all = append(all, found)
		}
	}
	return byCost(all)
}

// Now returns the ranks that are stragglers now, the most costly one first.
func (f *Finder) Now() []Finding { return byCost(slices.Collect(maps.Values(f.slow))) }

func byCost(all []Finding) []Finding {
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Rank, b.Rank))
	})
	return all
}

// Costs returns the cost of each rank since it started, or nil if none is known. Without ring it is
// known only of jobs with a straggler: the others may have ranks that do not wait for each other.
func (f *Finder) Costs() map[int]float64 {
	if f.basis != Collectives && !f.ever {
		return nil
	}
	return costs(f.sums, f.count, f.basis)
}

// costs returns the costs of ranks from the sums of their values over n points.
func costs(sums map[int]float64, n int, basis Basis) map[int]float64 {
	if n == 0 || len(sums) < 2 {
		return nil
	}
	most := slices.Max(slices.Collect(maps.Values(sums)))
	waits := map[int]float64{} // share of time in which each rank waited for others
	for rank, sum := range sums {
		switch mean := sum / float64(n); {
		case basis == Collectives:
			waits[rank] = mean
		case basis == GPU:
			waits[rank] = 1 - mean
		case most <= 0:
			waits[rank] = 0
		default:
			waits[rank] = 1 - sum/most
		}
	}
	sorted := slices.Sorted(maps.Values(waits))
	middle := (len(sorted) - 2) / 2 // of the others
	spreads := map[int][]float64{}
	for _, at := range []int{middle, middle + 1} {
		spreads[at] = spread(sorted, sorted[at])
	}
	all := map[int]float64{}
	for rank, own := range waits {
		at := without(sorted, own, middle)
		usual := sorted[at]
		all[rank] = max(0, usual-own)
		if basis == Collectives {
			continue
		}
		off := spreads[at]
		most := off[without(off, math.Abs(own-usual), (len(off)-1)*3/4)]
		// Ranks that wait for each other use a processor alike: most differ little beside a cost.
		if most >= all[rank]/3 || basis == CPU && sums[rank]/float64(n) < working {
			all[rank] = 0
		}
	}
	return all
}

// without returns where the value is that has an index when one of the sorted values is taken out.
func without(sorted []float64, one float64, index int) int {
	if one <= sorted[index] {
		return index + 1
	}
	return index
}

// spread returns how far each of the values is from the usual one, in order.
func spread(values []float64, usual float64) (off []float64) {
	for _, v := range values {
		off = append(off, math.Abs(v-usual))
	}
	slices.Sort(off)
	return off
}
