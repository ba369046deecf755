package gpu

import (
	"cmp"
	"math"
	"slices"
)

// nearness is how near two units are to each other. The zero value is two of which nothing is known.
type nearness struct {
	same  int // 1: both are one GPU's
	links int // NVLinks
	path  int // what lies between them on PCI, negated, so that more is nearer
	node  int // 1: they are of one NUMA node
}

func (a nearness) compare(b nearness) int {
	return cmp.Or(cmp.Compare(a.same, b.same), cmp.Compare(a.links, b.links), cmp.Compare(a.path, b.path), cmp.Compare(a.node, b.node))
}

// near says how near two units are.
func near(devices []Device, a, b unit) nearness {
	n := nearness{path: math.MinInt32}
	if a.device < 0 || b.device < 0 {
		return n
	}
	d, e := devices[a.device], devices[b.device]
	if a.device == b.device {
		n.same, n.path = 1, 0
	} else if path, known := d.Paths[e.Index]; known {
		n.path = -int(path)
	}
	n.links = d.NVLinks[e.Index]
	if d.NUMANode >= 0 && d.NUMANode == e.NUMANode {
		n.node = 1
	}
	return n
}

// sum adds up how near a unit is to several.
func sum(devices []Device, a unit, all []unit) (total nearness) {
	for _, b := range all {
		n := near(devices, a, b)
		total.same, total.links, total.path, total.node = total.same+n.same, total.links+n.links, total.path+n.path, total.node+n.node
	}
	return total
}

// group cuts units into as many groups of each units as there are ranks: a group's units are near to each other, and
// a group begins next to the one before it. What is as near stays in its order. There must be enough.
func group(devices []Device, units []unit, ranks, each int) (groups [][]unit) {
	rest := slices.Clone(units)
	take := func(nearTo []unit) unit {
		best := 0
		for i := 1; i < len(rest); i++ {
			if sum(devices, rest[i], nearTo).compare(sum(devices, rest[best], nearTo)) > 0 {
				best = i
			}
		}
		u := rest[best]
		rest = slices.Delete(rest, best, best+1)
		return u
	}
	var last []unit
	for range ranks {
		one := []unit{take(last)}
		for len(one) < each {
			one = append(one, take(one))
		}
		slices.SortFunc(one, func(a, b unit) int { return slices.Index(units, a) - slices.Index(units, b) })
		groups, last = append(groups, one), one
	}
	return groups
}
