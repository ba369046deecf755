package core

import (
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that was spawned takes part in no fence of the job, so its end holds none up.
func TestEndOfASpawnedRankHoldsNoFenceUp(t *testing.T) {
	f := NewFences(0, 2)
	must.Get(f.Add(wire.Fence{Name: "pmi/1", Values: map[int][]byte{0: nil}}))(t)
	if f.RankEnded(2); f.Stuck() != nil {
		t.Error("the job waits for a spawned rank")
	}
	if f.RankEnded(1); f.Stuck() == nil {
		t.Error("the job does not wait for its own rank")
	}
}
