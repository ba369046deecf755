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
	epoch  int
	size   int
}

// maxFenced bounds the values of one fence together: they go to every host in one message.
const maxFenced = wire.MaxControl / 2

// NewFences returns the fences of an epoch (0: of a fixed job) of size ranks.
func NewFences(epoch, size int) *Fences {
	gather := kv.NewFences(size)
	gather.Largest = maxFenced
	return &Fences{gather: gather, epoch: epoch, size: size}
}

// Add takes one host's values and returns the message for all hosts when they are complete. The
// error is a *[RankLost] if they never will be, and names the host that brings too much.
func (f *Fences) Add(host string, part wire.Fence) (*wire.Fence, error) {
	all, err := f.gather.AddBy(host, part.Name, part.Values)
	switch stuck := f.Stuck(); {
	case err != nil:
		return nil, err
	case all != nil:
		return &wire.Fence{Epoch: f.epoch, Name: part.Name, Values: all}, nil
	case stuck != nil:
		return nil, stuck
	}
	return nil, nil
}

// RankEnded records that a rank has ended. Spawned ranks take part in no fence of the job.
func (f *Fences) RankEnded(rank int) {
	if rank < f.size {
		f.gather.End(rank)
	}
}

// Stuck returns a rank that has ended while others wait for it in a fence, or nil.
func (f *Fences) Stuck() *RankLost {
	name, rank, waiter, stuck := f.gather.Stuck()
	if !stuck {
		return nil
	}
	return &RankLost{wire.EndedBefore(name, f.epoch, rank, waiter)}
}

func (e RankLost) Error() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.Cause) }
