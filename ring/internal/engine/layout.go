package engine

import (
	"slices"

	"github.com/gorun/gorun/ring/internal/algorithms"
)

// Layout is how the ranks of a communicator lie: in domains, each of which shares
// memory. Ranks of different domains reach each other over the network only.
type Layout struct {
	rank    int
	domains [][]int // ranks, ascending
	domain  int     // this rank's
	index   int     // this rank's place in its domain
	leaders int     // ranks of each domain that have a counterpart in every other: the smallest domain's size
	at      []int   // domain, by rank
}

func NewLayout(rank int, domains [][]int) Layout {
	l := Layout{rank: rank, domains: domains, leaders: len(domains[0])}
	for d, ranks := range domains {
		l.leaders = min(l.leaders, len(ranks))
		for i, r := range ranks {
			for len(l.at) <= r {
				l.at = append(l.at, 0)
			}
			l.at[r] = d
			if r == rank {
				l.domain, l.index = d, i
			}
		}
	}
	return l
}

// Size is the number of ranks.
func (l Layout) Size() int { return len(l.at) }

// mine is this rank's domain.
func (l Layout) mine() []int { return l.domains[l.domain] }

// Whole reports whether all ranks share memory.
func (l Layout) Whole() bool { return len(l.domains) == 1 }

// split reports whether no two ranks do.
func (l Layout) split() bool { return len(l.domains) == l.Size() }

// contiguous reports whether every domain has consecutive ranks, so that its parts of a
// vector lie side by side.
func (l Layout) contiguous() bool {
	return !slices.ContainsFunc(l.domains, func(d []int) bool { return d[len(d)-1]-d[0] != len(d)-1 })
}

// alike reports whether all domains have the same size.
func (l Layout) alike() bool {
	return !slices.ContainsFunc(l.domains, func(d []int) bool { return len(d) != l.leaders })
}

// Near reports whether rank shares memory with this one.
func (l Layout) Near(rank int) bool { return rank >= 0 && l.at[rank] == l.domain }

// place is where a rank of this domain is in it.
func (l Layout) place(rank int) int {
	place, _ := slices.BinarySearch(l.mine(), rank)
	return place
}

// counterparts are the ranks of all domains at this rank's place, if every domain has
// one, by domain.
func (l Layout) counterparts() []int {
	if l.index >= l.leaders {
		return nil
	}
	ranks := make([]int, len(l.domains))
	for d, domain := range l.domains {
		ranks[d] = domain[l.index]
	}
	return ranks
}

// fewRanks is how many ranks are all linked to each other from the start: it costs
// little, and then ranks in different calls always find out.
const fewRanks = 8

// Partners are the ranks that this one is linked to from the start.
func (l Layout) Partners() []int {
	if l.Size() <= fewRanks {
		var others []int
		for rank := range l.Size() {
			if !l.Near(rank) {
				others = append(others, rank)
			}
		}
		return others
	}
	counterparts := l.counterparts()
	if counterparts == nil {
		return nil
	}
	var ranks []int
	for _, member := range algorithms.Partners(len(counterparts), l.domain) {
		ranks = append(ranks, counterparts[member])
	}
	return ranks
}
