package plan

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/must"
)

// FuzzPlan checks that every rank has one place and every place one rank, that the
// same request gives the same plan, and that limits are kept.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{2, 2}, uint16(0), uint8(0), uint8(0), false)
	f.Add([]byte{1, 3, 2}, uint16(4), uint8(1), uint8(0), false)
	f.Add([]byte{4, 4}, uint16(19), uint8(0), uint8(1), false)
	f.Add([]byte{1}, uint16(2), uint8(2), uint8(2), true)
	f.Add([]byte{0, 0}, uint16(9), uint8(3), uint8(1), false)
	f.Add([]byte{200 + 1, 3}, uint16(7), uint8(1), uint8(1), false) // with a max_slots
	f.Fuzz(func(t *testing.T, slots []byte, np uint16, mapBy, rankBy uint8, strict bool) {
		var hosts []hostfile.Host
		all := 0
		for i, n := range slots[:min(len(slots), 40)] {
			h := hostfile.Host{Name: fmt.Sprint("h", i), Slots: int(n % 100)}
			if n >= 200 {
				h.MaxSlots = h.Slots + int(n)%3
			}
			hosts = append(hosts, h)
			all += h.Slots
		}
		req := Request{
			NP:              int(np % 2000),
			NoOversubscribe: strict,
			MapBy:           Order(mapBy % 3),
			RankBy:          Order(rankBy % 3),
		}
		plan, err := New(hosts, req)
		if err != nil {
			return
		}
		if again, err := New(hosts, req); err != nil || !reflect.DeepEqual(plan, again) {
			t.Fatalf("%+v\nthen %+v, %v", plan, again, err)
		}
		want := req.NP
		if want == 0 {
			want = all
		}
		must.That(t, plan.Size == want && (!strict || want <= all), "%d ranks of %d on %d slots", plan.Size, want, all)
		checkBijection(t, plan)
	})
}

// checkBijection checks that a plan's numbers say each place once, and agree.
func checkBijection(t *testing.T, plan Plan) {
	seen := map[int]bool{}
	cross := map[[2]int]bool{} // by local rank and cross rank
	sizes := map[int]int{}     // hosts that have a local rank
	for _, h := range plan.Hosts {
		must.That(t, h.MaxSlots <= 0 || len(h.Ranks) <= h.MaxSlots,
			"%s has %d ranks, at most %d allowed", h.Name, len(h.Ranks), h.MaxSlots)
		for local, r := range h.Ranks {
			switch {
			case r.Rank < 0 || r.Rank >= plan.Size || seen[r.Rank]:
				t.Fatalf("rank %d twice, or none of %d", r.Rank, plan.Size)
			case r.LocalRank != local || (local > 0 && h.Ranks[local-1].Rank >= r.Rank):
				t.Fatalf("%s: local ranks %+v", h.Name, h.Ranks)
			case cross[[2]int{local, r.CrossRank}]:
				t.Fatalf("two hosts have local rank %d and cross rank %d", local, r.CrossRank)
			case plan.Host(r.Rank).Name != h.Name:
				t.Fatalf("rank %d is on %s and on %s", r.Rank, h.Name, plan.Host(r.Rank).Name)
			}
			seen[r.Rank] = true
			cross[[2]int{local, r.CrossRank}] = true
			sizes[local]++
		}
	}
	must.That(t, len(seen) == plan.Size, "%d places for %d ranks", len(seen), plan.Size)
	for _, h := range plan.Hosts {
		for local, r := range h.Ranks {
			must.That(t, r.CrossSize == sizes[local] && r.CrossRank >= 0 && r.CrossRank < r.CrossSize,
				"cross rank %d of %d, of %d hosts with local rank %d", r.CrossRank, r.CrossSize, sizes[local], local)
		}
	}
}
