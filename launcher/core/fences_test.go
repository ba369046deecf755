package core

import (
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that was spawned takes part in no fence of the job, so its end holds none up.
func TestEndOfASpawnedRankHoldsNoFenceUp(t *testing.T) {
	f := NewFences(0, 2)
	must.Get(f.Add("h1", wire.Fence{Name: "pmi/1", Values: map[int][]byte{0: nil}}))(t)
	f.RankEnded(2)
	check.That(t, f.Stuck() == nil, "the job waits for a spawned rank")
	f.RankEnded(1)
	check.That(t, f.Stuck() != nil, "the job does not wait for its own rank")
}
