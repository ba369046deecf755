package core

import (
	"testing"

	"github.com/gorun/gorun/internal/net/kv"
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

// The values of a fence go to every host in one message. Where that would be too large, the host
// that brings most of them is named, whichever comes last.
func TestHostThatBringsTooMuchIsNamed(t *testing.T) {
	part := func(first, ranks, size int) wire.Fence {
		f := wire.Fence{Name: "f", Values: map[int][]byte{}}
		for rank := range ranks {
			f.Values[first+rank] = make([]byte, size)
		}
		return f
	}
	greedy := part(0, 128, kv.MaxFence)
	modest := part(128, 128, 8)
	for name, hosts := range map[string][]string{"first": {"greedy", "modest"}, "last": {"modest", "greedy"}} {
		f := NewFences(0, 256)
		var err error
		for _, host := range hosts {
			check.That(t, err == nil, "%s: a host alone fails: %v", name, err)
			_, err = f.Add(host, map[string]wire.Fence{"greedy": greedy, "modest": modest}[host])
		}
		check.Error(err).Says(t, "at most 8388608 allowed; greedy brings 8388608 of them", name)
	}
	f := NewFences(0, 256)
	must.Get(f.Add("a", part(0, 128, kv.MaxFence/2)))(t)
	all := must.Get(f.Add("b", part(128, 128, kv.MaxFence/2)))(t)
	check.That(t, all != nil && len(all.Values) == 256, "values of 8 MiB in all are refused")
}
