package core

import (
	"fmt"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// Fences holds the open fences of a job, or of an epoch of an elastic one. It is not safe for
// concurrent use.
type Fences struct {
	gather *kv.Fences
	size   int
	ended  []int // ranks that have ended and can reach no fence
}

// maxFenced bounds the values of one fence together: they go to every host in one message.
const maxFenced = wire.MaxControl / 2

// NewFences returns the fences of size ranks.
func NewFences(size int) *Fences { return &Fences{gather: kv.NewFences(size), size: size} }

// Add takes one host's values and returns all when they are complete.
func (f *Fences) Add(part wire.Fence) (map[int][]byte, error) {
	all, err := f.gather.Add(part.Name, part.Values)
	bytes := 0
	for _, value := range all {
		bytes += len(value)
	}
	if bytes > maxFenced {
		return nil, fmt.Errorf("fence %q: the values of all ranks are %d bytes, at most %d allowed", part.Name, bytes,
			maxFenced)
	}
	return all, err
}

// RankEnded records that a rank has ended. One that was spawned takes part in no fence of the job.
func (f *Fences) RankEnded(rank int) {
	if rank < f.size {
		f.ended = append(f.ended, rank)
	}
}

// Stuck returns a rank that has ended while others wait for it in a fence, or nil.
func (f *Fences) Stuck() *RankLost {
	name, rank, stuck := f.gather.Stuck(f.ended)
	if !stuck {
		return nil
	}
	return &RankLost{wire.Lost{
		By:      rank,
		Rank:    rank,
		Cause:   fmt.Sprintf("it ended while others waited for it in fence %q", name),
		Awaited: wire.IsMPIFence(name),
	}}
}
