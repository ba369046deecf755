package gpu

import (
	"cmp"
	"math"
	"slices"
)

// nearness is how near two units are to each other. The zero value means unknown.
type nearness struct {
	same  int // 1 if both are on one GPU
	links int // NVLinks
	path  int // the PCI path, negated, so that a larger value is nearer
	node  int // 1 if both are on one NUMA node
}

func (a nearness) compare(b nearness) int {
	return cmp.Or(cmp.Compare(a.same, b.same), cmp.Compare(a.links, b.links), cmp.Compare(a.path, b.path),
		cmp.Compare(a.node, b.node))
}

func near(devices []Device, a, b unit) nearness {
	n := nearness{path: math.MinInt32}
	if a.device < 0 || b.device < 0 {
		return n
	}
	d := devices[a.device]
	e := devices[b.device]
	if a.device == b.device {
		n.same = 1
		n.path = 0
	} else if path, known := d.Paths[e.Index]; known {
		n.path = -int(path)
	}
	n.links = d.NVLinks[e.Index]
	if d.NUMANode >= 0 && d.NUMANode == e.NUMANode {
		n.node = 1
	}
	return n
}

// sum adds the nearness of a unit to several others.
func sum(devices []Device, a unit, all []unit) (total nearness) {
	for _, b := range all {
		n := near(devices, a, b)
		total.same += n.same
		total.links += n.links
		total.path += n.path
		total.node += n.node
	}
	return total
}

// group divides units into one group of each units per rank. The units of a group are near each
// other, and each group begins next to the previous one. Ties keep their order. There must be
// enough units.
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
		groups = append(groups, one)
		last = one
	}
	return groups
}
