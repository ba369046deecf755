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
	ByRound                  // all slots of every host, then those of the next round; only ranks are numbered so
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

// Deal returns the hosts, by index, of n ranks in the order in which they are dealt: first to the
// slots of each host that are not taken (nil: none is), then to all its slots once more per round.
// A host gets at most its max_slots, those taken included. If no host has room, there are fewer
// than n. It is pure.
func Deal(hosts []hostfile.Host, taken []int, n int, by Order) (at []int) {
	full := make([]int, len(hosts))
	copy(full, taken)
	for round := 0; len(at) < n; round++ {
		room := make([]int, len(hosts))
		for i, h := range hosts {
			room[i] = h.Slots
			if round == 0 {
				room[i] -= full[i]
			}
			if h.MaxSlots > 0 {
				room[i] = min(room[i], h.MaxSlots-full[i])
			}
		}
		had := len(at)
		at = dealRound(at, room, n, by)
		if round > 0 && len(at) == had {
			break
		}
		for _, i := range at[had:] {
			full[i]++
		}
	}
	return at
}

// dealRound adds to at the hosts of as many ranks as they have room for, up to n in all.
func dealRound(at, room []int, n int, by Order) []int {
	for again := true; again && len(at) < n; {
		again = false
		for i := range room {
			share := min(room[i], n-len(at))
			if by == ByNode {
				share = min(share, 1)
			}
			for range share {
				at = append(at, i)
			}
			room[i] -= max(share, 0)
			again = again || room[i] > 0
		}
	}
	return at
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
