package session

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// Of what a host says when it is ready, only placements of its ranks are kept, one of each, and no
// more of a text than is shown.
func TestReadyIsBounded(t *testing.T) {
	v := validator{identity: Identity{Host: &plan.Host{Ranks: []plan.Rank{{Rank: 3}, {Rank: 4}}}}}
	long := strings.Repeat("x", 1<<20)
	many := slices.Repeat([]string{long}, 1000)
	r := wire.Ready{
		FreePort:  1 << 20,
		Note:      long,
		Contained: long,
		GPUs:      long,
	}
	for n := range 1000 {
		r.Places = append(r.Places, wire.Placement{
			Rank:    n % 5,
			CPUs:    long,
			Where:   long,
			GPUs:    many,
			Threads: n,
		})
	}
	v.checkReady(&r)
	must.That(t, len(r.Places) == 2, "%d placements", len(r.Places))
	text := string(must.Get(json.Marshal(r))(t))
	check.That(t, len(text) < 1<<20 && r.Places[0].Threads == 3 && r.Places[1].Threads == 4,
		"%d bytes are kept: %.200s", len(text), text)
}

// Ranks of other hosts connect to a host's port, so it is none of the system's.
func TestPortOfAHostIsValidated(t *testing.T) {
	v := validator{identity: Identity{Host: &plan.Host{}}}
	for said, kept := range map[int]int{-1: 0, 0: 0, 22: 0, 1023: 0, 1024: 1024, 65535: 65535, 65536 + 22: 0} {
		r := wire.Ready{FreePort: said}
		v.checkReady(&r)
		check.Equal(t, r.FreePort, kept, said)
	}
}

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
