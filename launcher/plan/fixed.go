package plan

import (
	"fmt"

	"github.com/gorun/gorun/hostfile"
)

// Seat is where the user puts a rank: the index of its host, and its cores there as [Rank] has
// them.
type Seat struct {
	Host  int
	Cores string
}

// Fixed puts each rank, in order, in its seat. Hosts without ranks are left out. It is pure.
func Fixed(hosts []hostfile.Host, seats []Seat, req Request) (Plan, error) {
	if len(seats) == 0 || len(seats) > MaxRanks {
		return Plan{}, fmt.Errorf("%d ranks: a job has 1 to %d", len(seats), MaxRanks)
	}
	all := make([]Host, len(hosts))
	for i, h := range hosts {
		all[i].Host = h
	}
	for rank, s := range seats {
		h := &all[s.Host]
		h.Ranks = append(h.Ranks, Rank{Rank: rank, LocalRank: len(h.Ranks), Cores: s.Cores})
	}
	plan := Plan{Size: len(seats)}
	for _, h := range all {
		most := h.Slots
		limited := req.NoOversubscribe
		if h.MaxSlots > 0 {
			most = h.MaxSlots
			limited = true
		}
		if limited && len(h.Ranks) > most {
			return Plan{}, &SlotsError{
				NP:       len(h.Ranks),
				Slots:    most,
				Hosts:    1,
				MaxSlots: h.MaxSlots > 0,
			}
		}
		if len(h.Ranks) > 0 {
			plan.Hosts = append(plan.Hosts, h)
		}
	}
	setCross(plan.Hosts)
	plan.warnOfFull()
	return plan, nil
}
