package ring

import "slices"

// layout is how the ranks of a communicator lie: in domains, each of which shares
// memory. Ranks of different domains reach each other over the network only.
type layout struct {
	rank    int
	domains [][]int // ranks, ascending
	domain  int     // this rank's
	index   int     // this rank's place in its domain
	leaders int     // ranks of each domain that have a counterpart in every other: the smallest domain's size
	at      []int   // domain, by rank
}

func newLayout(rank int, domains [][]int) layout {
	l := layout{rank: rank, domains: domains, leaders: len(domains[0])}
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

// size is the number of ranks.
func (l layout) size() int { return len(l.at) }

// mine is this rank's domain.
func (l layout) mine() []int { return l.domains[l.domain] }

// whole reports whether all ranks share memory.
func (l layout) whole() bool { return len(l.domains) == 1 }

// split reports whether no two ranks do.
func (l layout) split() bool { return len(l.domains) == l.size() }

// contiguous reports whether every domain has consecutive ranks, so that its parts of a
// vector lie side by side.
func (l layout) contiguous() bool {
	return !slices.ContainsFunc(l.domains, func(d []int) bool { return d[len(d)-1]-d[0] != len(d)-1 })
}

// alike reports whether all domains have the same size.
func (l layout) alike() bool {
	return !slices.ContainsFunc(l.domains, func(d []int) bool { return len(d) != l.leaders })
}

// near reports whether rank shares memory with this one.
func (l layout) near(rank int) bool { return rank >= 0 && l.at[rank] == l.domain }

// place is where a rank of this domain is in it.
func (l layout) place(rank int) int {
	place, _ := slices.BinarySearch(l.mine(), rank)
	return place
}

// counterparts are the ranks of all domains at this rank's place, if every domain has
// one, by domain.
func (l layout) counterparts() []int {
	if l.index >= l.leaders {
		return nil
	}
	ranks := make([]int, len(l.domains))
	for d, domain := range l.domains {
		ranks[d] = domain[l.index]
	}
	return ranks
}
