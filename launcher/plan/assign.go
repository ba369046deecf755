package plan

import (
	"cmp"

	"github.com/gorun/gorun/hostfile"
)

// Order is an order in which ranks are assigned to slots, or numbered.
type Order int

// The orders.
const (
	BySlot  Order = iota + 1 // all slots of a host, then those of the next
	ByNode                   // one slot of every host, then another of every host that has one
	ByRound                  // all slots of every host, then those of the next round: an order of numbers only
)

func (o Order) String() string {
	switch o {
	case ByNode:
		return "node"
	case ByRound:
		return "round"
	}
	return "slot"
}

// orders returns the orders of assignment and of numbering.
func (r Request) orders() (mapBy, rankBy Order) {
	mapBy = cmp.Or(r.MapBy, BySlot)
	return mapBy, cmp.Or(r.RankBy, mapBy)
}

// deal returns how many of np ranks each host gets: its slots in every round,
// and never more than its max_slots.
func deal(hosts []hostfile.Host, np int, by Order) ([]int, error) {
	shares := make([]int, len(hosts))
	for left, dealt := np, 1; left > 0; left -= dealt {
		if dealt == 0 {
			return nil, &SlotsError{
				NP:       np,
				Slots:    np - left,
				Hosts:    len(hosts),
				MaxSlots: true,
			}
		}
		room := make([]int, len(hosts))
		for i, h := range hosts {
			room[i] = h.Slots
			if h.MaxSlots > 0 {
				room[i] = min(room[i], h.MaxSlots-shares[i])
			}
		}
		dealt = dealRound(shares, room, left, by)
	}
	return shares, nil
}

// dealRound adds to shares as many of left ranks as hosts have room for, and returns how many.
func dealRound(shares, room []int, left int, by Order) (dealt int) {
	for again := true; again && dealt < left; {
		again = false
		for i := range room {
			share := min(room[i], left-dealt)
			if by == ByNode {
				share = min(share, 1)
			}
			shares[i] += share
			room[i] -= share
			dealt += share
			again = again || room[i] > 0
		}
	}
	return dealt
}

// number returns the ranks of each host, ascending: host by host, one of every host in turn, or the
// slots of every host in turn.
func number(hosts []hostfile.Host, shares []int, by Order) [][]Rank {
	ranks := make([][]Rank, len(shares))
	next := 0
	for again := true; again; {
		again = false
		for i, share := range shares {
			left := share - len(ranks[i])
			switch by {
			case ByNode:
				left = min(left, 1)
			case ByRound:
				left = min(left, max(hosts[i].Slots, 1))
			}
			for range left {
				ranks[i] = append(ranks[i], Rank{Rank: next, LocalRank: len(ranks[i])})
				next++
			}
			again = again || len(ranks[i]) < share
		}
	}
	return ranks
}
