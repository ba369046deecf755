// Package straggler finds the ranks that the others of a job wait for.
package straggler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/watch"
)

const (
	// Window is how long a rank must be late to be a straggler.
	Window = 45 * time.Second
	// Threshold is the least cost of a straggler.
	Threshold = 0.10
)

// Finding is a straggler. Its cost is the part of the time in which the others waited for it: the median of the time that they spent in
// collectives, less its own. All ranks spend the same time in moving data, and a rank that comes last waits for nobody.
type Finding struct {
	Rank int
	Host string
	Cost float64
}

// Finder takes the samples of a job, of whose ranks it knows only the collectives. The zero Finder is ready for use.
type Finder struct {
	pids   map[int]int // of the ranks
	recent []point
	told   map[int]bool

	sums  map[int]float64 // of all points
	count int
}

// point is the part of the time that each rank spent in collectives before a sample.
type point struct {
	at     time.Time
	shares map[int]float64
}

// Add takes a sample and returns the ranks that have become stragglers.
func (f *Finder) Add(s watch.Sample) []Finding {
	p, pids, hosts := point{s.At, map[int]float64{}}, map[int]int{}, map[int]string{}
	for _, r := range s.Ranks {
		if r.Ring == nil || r.Exit != nil {
			f.recent = nil // those that are left wait for another reason
			return nil
		}
		p.shares[r.Rank], pids[r.Rank], hosts[r.Rank] = r.Ring.Share, r.PID, r.Host
	}
	if !maps.Equal(f.pids, pids) {
		*f = Finder{pids: pids, told: map[int]bool{}, sums: map[int]float64{}} // other processes: those of another epoch, say
	}
	f.recent = append(f.recent, p)
	for len(f.recent) > 1 && p.at.Sub(f.recent[1].at) >= Window {
		f.recent = f.recent[1:]
	}
	for rank, share := range p.shares {
		f.sums[rank] += share
	}
	f.count++
	if p.at.Sub(f.recent[0].at) < Window {
		return nil
	}
	return f.news(hosts)
}

// news returns the stragglers of the window that were none before.
func (f *Finder) news(hosts map[int]string) (all []Finding) {
	sums := map[int]float64{}
	for _, p := range f.recent[1:] { // the first covers the time before the window
		for rank, share := range p.shares {
			sums[rank] += share
		}
	}
	for rank, cost := range costs(sums, len(f.recent)-1) {
		switch {
		case cost < Threshold/2:
			delete(f.told, rank)
		case cost >= Threshold && !f.told[rank]:
			f.told[rank] = true
			all = append(all, Finding{rank, hosts[rank], cost})
		}
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Rank, b.Rank)) })
	return all
}

// Costs returns the cost of each rank since it started, or nil if none is known.
func (f *Finder) Costs() map[int]float64 { return costs(f.sums, f.count) }

// costs returns the costs of ranks of whose shares the sums over n points are given.
func costs(sums map[int]float64, n int) map[int]float64 {
	if n == 0 || len(sums) < 2 {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b int) int { return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(a, b)) })
	all := map[int]float64{}
	for i, rank := range order {
		median := (len(order) - 1) / 2 // of the others
		if median >= i {
			median++
		}
		all[rank] = max(0, sums[order[median]]-sums[rank]) / float64(n)
	}
	return all
}
