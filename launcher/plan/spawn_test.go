package plan

import (
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestSpawnedRanksBelongToOneHost(t *testing.T) {
	p := must.Get(New([]hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}, Request{}))(t)
	check.That(t, p.Host(3) == nil && p.WithSpawn(0, 0).Host(3) == nil, "a rank may be spawned where none may")
	p = p.WithSpawn(4, 7)
	for rank, want := range map[int]string{0: "a", 2: "b", 3: "a", 4: "b", 5: "a", 3 + 2*(maxSpawned-1): "a",
		4 + 2*(maxSpawned-1): "b"} {
		h := p.Host(rank)
		check.That(t, h != nil && h.Name == want, "rank %d is of %v, want %s", rank, h, want)
	}
	q := p.WithIdle([]hostfile.Host{{Name: "b", Slots: 3}, {Name: "c", Slots: 1}, {Name: "d"}})
	check.That(t, len(q.Hosts) == 3 && q.Hosts[2].Name == "c" && len(q.Hosts[2].Ranks) == 0,
		"with idle hosts the plan is %v", q)
	for _, rank := range []int{-1, 3 + 2*maxSpawned, 1 << 40} {
		if h := p.Host(rank); h != nil {
			t.Errorf("rank %d is of %s", rank, h.Name)
		}
	}
	check.That(t, len(p.Numbers()) == 3 && p.Hosts[0].RankList() == "ranks 0-1",
		"the plan has %d ranks, %s", len(p.Numbers()), p.Hosts[0].RankList())
}
