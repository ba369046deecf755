package hosts

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport"
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
	case o.Pods != "" && s.count == nil:
		pods := "pods with the labels " + o.Pods
		return Selection{Source: pods, Unasked: []string{"lists " + pods}}, nil
	case o.Pods != "":
		p, err = s.findPods(ctx, o)
		if err == nil && o.Hosts != "" {
			p, err = s.narrow(p, o.Hosts)
		}
		if err == nil {
			p, err = s.leaveHere(p, o)
		}
	case o.Rankfile != "":
		p, err = s.seatRanks(o)
	case o.MapBy.Sequence:
		p, err = s.seatInSequence(o)
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
	p, err = s.countUnits(ctx, p, o)
	if err != nil || p.Unasked != nil {
		return p, err
	}
	return limitRanks(p, o)
}

// limitRanks limits the default number of ranks to --min-np and --max-np, and leaves slots to
// --spares.
func limitRanks(p Selection, o *settings.Options) (Selection, error) {
	spares := int(o.Elastic.Spares)
	if o.NP > 0 || o.Elastic.MinNP == 0 && o.Elastic.MaxNP == 0 && spares == 0 {
		return p, nil
	}
	if p.NP == 0 {
		p.NP = max(p.Slots()-spares, 1)
	}
	if o.Elastic.MaxNP > 0 {
		p.NP = min(p.NP, o.Elastic.MaxNP)
	}
	if o.HostsChange() { // more hosts may come later
		p.NP = max(p.NP, o.Elastic.MinNP)
	}
	if p.NP < o.Elastic.MinNP {
		return Selection{}, usage.Errorf("name more hosts, or give them more slots",
			"--min-np %d, but there are %d slots, from %s", o.Elastic.MinNP, p.NP, p.Source)
	}
	return p, nil
}

// applySlotFlags applies --nodes and --ppn to the slots of p. --nodes alone shares the ranks
// evenly, one per host without -np.
func applySlotFlags(p Selection, o *settings.Options) (Selection, error) {
	if o.Nodes == 0 && o.Ppn.N == 0 {
		return p, nil
	}
	nodes := int(o.Nodes)
	ppn := o.Ppn.N
	if nodes > len(p.Hosts) {
		return Selection{}, usage.Errorf("name more hosts with -H or --hostfile", "--nodes %d, but there %s, from %s",
			nodes, areHosts(len(p.Hosts)), p.Source)
	}
	hosts := append([]hostfile.Host(nil), p.Hosts...)
	if nodes > 0 {
		hosts = hosts[:nodes]
	}
	p.NP = 0
	slots := func(int) int { return ppn }
	limited := ppn == 0 && o.Request(o.NP).NoOversubscribe // to the hosts' own slots
	if ppn == 0 {
		np := max(o.NP, 0)
		if np == 0 {
			np = len(hosts)
		}
		hosts = hosts[:min(len(hosts), np)]
		slots = func(i int) int { return (np + len(hosts) - 1 - i) / len(hosts) }
	}
	for i := range hosts {
		if limited && (hosts[i].Auto || hosts[i].Slots < slots(i)) {
			continue
		}
		hosts[i].Slots = slots(i)
		hosts[i].Auto = o.Ppn.Unit != ""
		if hosts[i].Auto {
			continue
		}
		if h := hosts[i]; h.MaxSlots > 0 && h.Slots > h.MaxSlots {
			return Selection{}, usage.Errorf("", "%s would get %d ranks, more than its max_slots of %d", h.Name,
				h.Slots, h.MaxSlots)
		}
		if hosts[i].Slots > hostfile.MaxSlots {
			return Selection{}, usage.Errorf("", "%s would get %d ranks: a host has at most %d", hosts[i].Name,
				hosts[i].Slots, hostfile.MaxSlots)
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
		remedy := cmp.Or(usage.Hint(err), "it must print a host per line, such as f1:2, and end with 0")
		return Selection{}, usage.Errorf(remedy, "--host-discovery-script %s: %w", o.Elastic.Discovery, err)
	}
	return Selection{Hosts: hosts, Source: "the discovery script " + o.Elastic.Discovery}, nil
}

// countUnits sets the slots of hosts marked Auto to the number of ranks that their cores hold, or
// that --ppn gives to each of their units. It asks remote hosts, or leaves them marked if it may
// not ask.
func (s Finder) countUnits(ctx context.Context, p Selection, o *settings.Options) (Selection, error) {
	unit := settings.UnitAuto
	each := 1
	if o.Ppn.Unit != "" {
		unit = o.Ppn.Unit
		each = o.Ppn.N
	}
	hosts := append([]hostfile.Host(nil), p.Hosts...)
	var others []int // indexes into hosts
	set := func(at, n int) error {
		switch {
		case n < 1 && unit == settings.UnitGPU:
			return usage.Errorf("say how many ranks each host has: --ppn N; --ppn auto is one per core",
				"%s has no GPU, and --ppn %s", hosts[at].Name, o.Ppn.String())
		case unit == settings.UnitAuto:
			n /= max(int(o.CPUsPerRank), 1)
		}
		hosts[at].Slots = autoSlots(hosts[at], n, each)
		hosts[at].Auto = false
		return nil
	}
	for i := range hosts {
		if !hosts[i].Auto {
			continue
		}
		here := 0
		if transport.IsLocal(hosts[i], s.Hostname) {
			here = s.Here(unit)
		}
		if here == 0 {
			others = append(others, i)
		} else if err := set(i, here); err != nil {
			return Selection{}, err
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
		p.Unasked = append(p.Unasked, "counts the "+plural(unit)+" of "+prose.And(names))
		return p, nil
	}
	asked := make([]hostfile.Host, len(others))
	for i, at := range others {
		asked[i] = hosts[at]
	}
	counted, err := s.count(ctx, asked, unit)
	for i, at := range others {
		if err == nil {
			err = set(at, counted[i])
		}
	}
	if err != nil {
		return Selection{}, err
	}
	return p, nil
}

// plural is a unit of --ppn in messages.
func plural(unit string) string {
	switch unit {
	case settings.UnitAuto:
		return "cores"
	case settings.UnitGPU, settings.UnitGPUOrOne:
		return "GPUs"
	case settings.UnitGPUOrCore:
		return "GPUs and cores"
	}
	return topology.Units()[unit].String() + "s"
}

// autoSlots returns the slots of a host with n units of each ranks. n comes from the host and may
// be wrong.
func autoSlots(h hostfile.Host, n, each int) int {
	slots := min(min(max(n, 1), hostfile.MaxSlots)*each, hostfile.MaxSlots)
	if h.MaxSlots > 0 {
		slots = min(slots, h.MaxSlots)
	}
	return slots
}
