package session

import (
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/launcher/plan"
)

// Ranks that may be spawned say nothing before they are.
func TestRanksSpeakOnceTheyAreSpawned(t *testing.T) {
	host := &plan.Host{Ranks: []plan.Rank{{Rank: 3}}, Spawn: wire.Spawn{First: 8, Step: 2, Total: 100}}
	v := validator{identity: Identity{Host: host}, exited: map[int]bool{}, spawned: map[int]bool{}}
	for rank, began := range map[int]bool{3: true, 4: false, 8: false, 10: false} {
		check.Equal(t, v.Began(rank), began, rank)
	}
	check.Error(v.CheckExit(&wire.Exit{Rank: 10})).Says(t, "spoke for rank 10")
	v.Spawn(10)
	check.That(t, v.Began(10) && !v.Began(8), "rank 10 was spawned, not 8")
	check.OK(t, v.CheckExit(&wire.Exit{Rank: 10}))
	check.That(t, v.Began(10), "what a rank has printed may come after its end")
	check.Error(v.CheckExit(&wire.Exit{Rank: 10})).Says(t, "twice")
}
