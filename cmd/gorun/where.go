package main

import (
	"context"
	"strconv"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/usage"
)

// whereToRun is the hosts that were asked for, with the slots that --ppn, --nodes and their
// cores give them.
func whereToRun(ctx context.Context, o *runOptions, s surroundings) (place, error) {
	var p place
	var err error
	if o.elastic.discovery != "" {
		p, err = o.discover(ctx)
	} else {
		p, err = findHosts(o, s)
	}
	if err != nil {
		return place{}, err
	}
	p, err = shape(p, o)
	if err != nil {
		return place{}, err
	}
	p, err = s.countCores(ctx, p, int(o.cpusPerRank))
	if err != nil {
		return place{}, err
	}
	return bound(p, o)
}

// bound keeps a number of ranks that nobody gave between --min-np and --max-np.
func bound(p place, o *runOptions) (place, error) {
	if o.np > 0 || o.elastic.minNP == 0 && o.elastic.maxNP == 0 {
		return p, nil
	}
	if p.np == 0 {
		for _, h := range p.hosts {
			p.np += h.Slots
		}
	}
	if o.elastic.maxNP > 0 {
		p.np = min(p.np, o.elastic.maxNP)
	}
	if o.elastic.discovery != "" { // there may be more later
		p.np = max(p.np, o.elastic.minNP)
	}
	if p.np < o.elastic.minNP {
		return place{}, usage.Errorf("name more hosts, or give them more slots", "--min-np %d, but there is room for %d, from %s", o.elastic.minNP, p.np, p.source)
	}
	return p, nil
}

// shape gives the hosts of p the slots that --nodes and --ppn ask for. --nodes alone
// shares the ranks out evenly, one a host when no number is given. It is pure.
func shape(p place, o *runOptions) (place, error) {
	if o.nodes == 0 && o.ppn == 0 {
		return p, nil
	}
	nodes, ppn := int(o.nodes), int(o.ppn)
	if nodes > len(p.hosts) {
		return place{}, usage.Errorf("name more hosts with -H or --hostfile", "--nodes %d, but there %s, from %s", nodes, areHosts(len(p.hosts)), p.source)
	}
	hosts := append([]hostfile.Host(nil), p.hosts...)
	if nodes > 0 {
		hosts = hosts[:nodes]
	}
	p.np = 0
	slots := func(int) int { return ppn }
	if ppn == 0 {
		np := max(o.np, 0)
		if np == 0 {
			np = len(hosts)
		}
		hosts = hosts[:min(len(hosts), np)]
		slots = func(i int) int {
			share := np / len(hosts)
			if i < np%len(hosts) {
				share++
			}
			return share
		}
	}
	for i := range hosts {
		hosts[i].Slots, hosts[i].Auto = slots(i), false
		if h := hosts[i]; h.MaxSlots > 0 && h.Slots > h.MaxSlots {
			return place{}, usage.Errorf("", "%s is to get %d ranks, and may have at most %d (max_slots)", h.Name, h.Slots, h.MaxSlots)
		}
		if hosts[i].Slots > hostfile.MaxSlots {
			return place{}, usage.Errorf("", "%s is to get %d ranks: a host may have at most %d", hosts[i].Name, hosts[i].Slots, hostfile.MaxSlots)
		}
	}
	p.hosts = hosts
	return p, nil
}

func areHosts(n int) string {
	if n == 1 {
		return "is 1 host"
	}
	return "are " + strconv.Itoa(n) + " hosts"
}
