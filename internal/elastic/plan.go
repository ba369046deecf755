package elastic

import (
	"cmp"
	"slices"
)

// Plan is one epoch: who is in it, in the order of their ranks.
type Plan struct {
	Epoch   int
	Members []Member
}

// Member is a process and its numbers in one epoch. It keeps its slot's number for life, whatever becomes of its neighbours; LocalRank has
// no gaps, and is the same where there are none.
type Member struct {
	Process
	Rank, Size           int
	LocalRank, LocalSize int
	CrossRank, CrossSize int // among those of the same LocalRank
	Node, Nodes          int // the host among those of the epoch
}

// candidate is a process for a plan.
type candidate struct {
	Process
	since int // the first epoch that it was in when all had joined; 0: it has no state
	place int // of its host, in the order in which they came
	fresh bool
}

func (c candidate) hasState() bool { return !c.fresh && c.since > 0 }

// senior orders candidates by how much they know: who has had state for longest comes first, newcomers last.
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

// number makes a plan of candidates: the ranks of a host are contiguous and in the order of their slots, hosts come in the order of
// their most senior process and then of their arrival. Rank 0 must be one that has the job's state, if anybody has. So the first host is one
// whose lowest slot has it; only where there is none does the most senior process come before those of lower slots on its host, which Horovod
// bears with on one host alone.
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
		return cmp.Or(senior(slices.MinFunc(a, senior), slices.MinFunc(b, senior)), cmp.Compare(a[0].place, b[0].place))
	})
	if first := slices.IndexFunc(order, func(own []candidate) bool { return own[0].hasState() }); first >= 0 {
		own := order[first]
		order = slices.Insert(slices.Delete(order, first, first+1), 0, own)
	} else {
		slices.SortStableFunc(order[0], senior)
	}
	plan := Plan{Epoch: epoch}
	cross := map[int]int{} // so far, by local rank
	for node, own := range order {
		var locals []int
		for _, c := range own {
			locals = append(locals, c.Local)
		}
		slices.Sort(locals)
		for _, c := range own {
			local, _ := slices.BinarySearch(locals, c.Local)
			m := Member{Process: c.Process, Rank: len(plan.Members), Size: len(candidates), LocalRank: local, LocalSize: len(own), CrossRank: cross[local],
				Node: node, Nodes: len(order)}
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
