package hosts

import (
	"context"
	"strconv"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/transport"
)

// Find returns the hosts for a run, with slots from --ppn, --nodes or their cores.
func Find(ctx context.Context, o *settings.Options, s Finder) (Selection, error) {
	var p Selection
	var err error
	switch {
	case o.Elastic.Discovery != "" && s.count == nil:
		script := "the discovery script " + o.Elastic.Discovery
		return Selection{Source: script, Unasked: []string{"runs " + script}}, nil
	case o.Elastic.Discovery != "":
		p, err = discover(ctx, o)
	default:
		p, err = findHosts(o, s)
	}
	if err != nil {
		return Selection{}, err
	}
	p, err = applySlotFlags(p, o)
	if err != nil {
		return Selection{}, err
	}
	p, err = s.countCores(ctx, p, int(o.CPUsPerRank))
	if err != nil || p.Unasked != nil {
		return p, err
	}
	return limitRanks(p, o)
}

// limitRanks limits the default number of ranks to --min-np and --max-np.
func limitRanks(p Selection, o *settings.Options) (Selection, error) {
	if o.NP > 0 || o.Elastic.MinNP == 0 && o.Elastic.MaxNP == 0 {
		return p, nil
	}
	if p.NP == 0 {
		p.NP = p.Slots()
	}
	if o.Elastic.MaxNP > 0 {
		p.NP = min(p.NP, o.Elastic.MaxNP)
	}
	if o.Elastic.Discovery != "" { // more hosts may come later
		p.NP = max(p.NP, o.Elastic.MinNP)
	}
	if p.NP < o.Elastic.MinNP {
		return Selection{}, usage.Errorf("name more hosts, or give them more slots", "--min-np %d, but there are %d slots, from %s", o.Elastic.MinNP, p.NP, p.Source)
	}
	return p, nil
}

// applySlotFlags applies --nodes and --ppn to the slots of p. --nodes alone shares the ranks evenly, one per host without -np.
func applySlotFlags(p Selection, o *settings.Options) (Selection, error) {
	if o.Nodes == 0 && o.Ppn == 0 {
		return p, nil
	}
	nodes, ppn := int(o.Nodes), int(o.Ppn)
	if nodes > len(p.Hosts) {
		return Selection{}, usage.Errorf("name more hosts with -H or --hostfile", "--nodes %d, but there %s, from %s", nodes, areHosts(len(p.Hosts)), p.Source)
	}
	hosts := append([]hostfile.Host(nil), p.Hosts...)
	if nodes > 0 {
		hosts = hosts[:nodes]
	}
	p.NP = 0
	slots := func(int) int { return ppn }
	if ppn == 0 {
		np := max(o.NP, 0)
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
			return Selection{}, usage.Errorf("", "%s would get %d ranks, more than its max_slots of %d", h.Name, h.Slots, h.MaxSlots)
		}
		if hosts[i].Slots > hostfile.MaxSlots {
			return Selection{}, usage.Errorf("", "%s would get %d ranks: a host has at most %d", hosts[i].Name, hosts[i].Slots, hostfile.MaxSlots)
		}
	}
	p.Hosts = hosts
	return p, nil
}

func areHosts(n int) string {
	if n == 1 {
		return "is 1 host"
	}
	return "are " + strconv.Itoa(n) + " hosts"
}

// discover runs the discovery script once and returns its hosts.
func discover(ctx context.Context, o *settings.Options) (Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(o.StartTimeout), time.Second))
	defer cancel()
	hosts, err := o.Elastic.Discoverer()(ctx)
	if err != nil {
		return Selection{}, usage.Errorf("it must print a host per line, such as f1:2, and end with 0", "--host-discovery-script %s: %w", o.Elastic.Discovery, err)
	}
	return Selection{Hosts: hosts, Source: "the discovery script " + o.Elastic.Discovery}, nil
}

// countCores sets the slots of hosts marked Auto to the number of ranks that their cores hold. It asks remote hosts
// for their cores, or leaves them marked if it may not ask.
func (s Finder) countCores(ctx context.Context, p Selection, perRank int) (Selection, error) {
	hosts := append([]hostfile.Host(nil), p.Hosts...)
	var others []int // indexes into hosts
	for i := range hosts {
		switch {
		case !hosts[i].Auto:
		case transport.IsLocal(hosts[i], s.Hostname):
			hosts[i].Slots, hosts[i].Auto = autoSlots(hosts[i], s.Cores(), perRank), false
		default:
			others = append(others, i)
		}
	}
	p.Hosts = hosts
	if len(others) == 0 {
		return p, nil
	}
	if s.count == nil {
		var names []string
		for _, at := range others {
			hosts[at].Slots = 0
			names = append(names, hosts[at].Name)
		}
		p.Unasked = append(p.Unasked, "counts the cores of "+prose.And(names))
		return p, nil
	}
	asked := make([]hostfile.Host, len(others))
	for i, at := range others {
		asked[i] = hosts[at]
	}
	cores, err := s.count(ctx, asked)
	if err != nil {
		return Selection{}, err
	}
	for i, at := range others {
		hosts[at].Slots, hosts[at].Auto = autoSlots(hosts[at], cores[i], perRank), false
	}
	return p, nil
}

// autoSlots returns how many ranks of perRank cores fit on a host.
func autoSlots(h hostfile.Host, cores, perRank int) int {
	slots := min(max(cores/max(perRank, 1), 1), hostfile.MaxSlots)
	if h.MaxSlots > 0 {
		slots = min(slots, h.MaxSlots)
	}
	return slots
}
