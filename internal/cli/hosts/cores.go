package hosts

import (
	"context"

	"github.com/gorun/gorun/hostfile"
)

// countCores sets the slots of hosts marked Auto to the number of ranks that their cores hold. It asks remote hosts
// for their cores.
func (s Finder) countCores(ctx context.Context, p Selection, perRank int) (Selection, error) {
	hosts := append([]hostfile.Host(nil), p.Hosts...)
	var others []int // indexes into hosts
	for i := range hosts {
		switch {
		case !hosts[i].Auto:
		case IsLocal(hosts[i], s.Hostname):
			hosts[i].Slots = autoSlots(hosts[i], s.Cores(), perRank)
		default:
			others = append(others, i)
		}
	}
	p.Hosts = hosts
	if len(others) == 0 {
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
		hosts[at].Slots = autoSlots(hosts[at], cores[i], perRank)
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
