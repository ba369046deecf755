package elastic

import (
	"cmp"
	"slices"
)

// Plan is one epoch: its members in rank order.
type Plan struct {
	Epoch   int
	Members []Member
}

// Member is a process and its numbers in one epoch. Its slot never changes; LocalRank is the slot's
// number without gaps.
type Member struct {
	Process
	Rank, Size           int
	LocalRank, LocalSize int
	CrossRank, CrossSize int // rank and size among the members with the same LocalRank
	Node, Nodes          int // index of the host among the epoch's hosts, and their count
}

// candidate is a process that may be in a plan.
type candidate struct {
	Process
	since   int // first whole epoch of the process; 0 if it has no state
	arrival int // arrival order of the host
	fresh   bool
}

// senior compares candidates by the age of their state, oldest first; newcomers come last.
func senior(a, b candidate) int {
	know := func(c candidate) int {
		switch {
		case c.fresh:
			return 1 << 62
		case c.since == 0:
			return 1<<62 - 1
		}
		return c.since
	}
	return cmp.Compare(know(a), know(b))
}

// number plans an epoch of candidates. The ranks of a host are contiguous and in slot order; hosts
// are ordered by their most senior process, then by arrival. Rank 0 must have the job's state, if
// any process has. So the first host is one whose lowest slot has it. If there is none, the most
// senior process precedes lower slots of its host, which Horovod accepts only on a single host.
func number(epoch int, candidates []candidate) Plan {
	hosts := map[string][]candidate{}
	for _, c := range candidates {
		hosts[c.Host] = append(hosts[c.Host], c)
	}
	var order [][]candidate
	for _, own := range hosts {
		slices.SortFunc(own, func(a, b candidate) int { return cmp.Compare(a.Local, b.Local) })
		order = append(order, own)
	}
	slices.SortFunc(order, func(a, b []candidate) int {
		return cmp.Or(senior(slices.MinFunc(a, senior), slices.MinFunc(b, senior)),
			cmp.Compare(a[0].arrival, b[0].arrival))
	})
	hasState := func(own []candidate) bool { return !own[0].fresh && own[0].since > 0 }
	if first := slices.IndexFunc(order, hasState); first >= 0 {
		own := order[first]
		order = slices.Insert(slices.Delete(order, first, first+1), 0, own)
	} else {
		slices.SortStableFunc(order[0], senior)
	}
	plan := Plan{Epoch: epoch}
	cross := map[int]int{} // members counted so far, by local rank
	for node, own := range order {
		var locals []int
		for _, c := range own {
			locals = append(locals, c.Local)
		}
		slices.Sort(locals)
		for _, c := range own {
			local, _ := slices.BinarySearch(locals, c.Local)
			m := Member{
				Process:   c.Process,
				Rank:      len(plan.Members),
				Size:      len(candidates),
				LocalRank: local,
				LocalSize: len(own),
				CrossRank: cross[local],
				Node:      node,
				Nodes:     len(order),
			}
			cross[local]++
			plan.Members = append(plan.Members, m)
		}
	}
	for i := range plan.Members {
		plan.Members[i].CrossSize = cross[plan.Members[i].LocalRank]
	}
	return plan
}

func (p Plan) has(host string) bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool { return m.Host == host })
}
