package engine

import (
	"slices"

	"github.com/gorun/gorun/ring/internal/algorithms"
)

// Layout is how the ranks of a communicator share memory: in domains. Ranks of different domains
// reach each other only over the network.
type Layout struct {
	rank    int
	domains [][]int // ranks, ascending
	domain  int     // this rank's
	index   int     // this rank's place in its domain
	leaders int     // ranks of each domain that have a counterpart in every other: the smallest domain's size
	at      []int   // domain, by rank
}

// NewLayout returns the layout as rank sees it. Domains are lists of ascending ranks that cover all
// ranks.
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
				l.domain = d
				l.index = i
			}
		}
	}
	return l
}

// Size returns the number of ranks.
func (l Layout) Size() int { return len(l.at) }

func (l Layout) mine() []int { return l.domains[l.domain] }

// Whole reports whether all ranks share memory.
func (l Layout) Whole() bool { return len(l.domains) == 1 }

// split reports whether no two ranks share memory.
func (l Layout) split() bool { return len(l.domains) == l.Size() }

// even reports whether all domains have as many ranks.
func (l Layout) even() bool { return l.leaders*len(l.domains) == l.Size() }

// contiguous reports whether every domain has consecutive ranks, so that its parts of a vector are
// adjacent.
func (l Layout) contiguous() bool {
	return !slices.ContainsFunc(l.domains, func(d []int) bool { return d[len(d)-1]-d[0] != len(d)-1 })
}

// Near reports whether rank shares memory with this one.
func (l Layout) Near(rank int) bool { return rank >= 0 && l.at[rank] == l.domain }

// place returns the index of rank in this domain.
func (l Layout) place(rank int) int {
	place, _ := slices.BinarySearch(l.mine(), rank)
	return place
}

// counterparts returns the ranks at this rank's index in each domain, or nil if a domain has none.
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

// fewRanks is how many ranks connect to all others from the start: it is cheap, and then differing
// calls are always detected.
const fewRanks = 8

// Partners returns the ranks that this one connects to from the start.
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
