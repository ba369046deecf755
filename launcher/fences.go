package launcher

import (
	"fmt"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/wire"
)

// fences is the job's store and its open fences. add is for the job's loop
// only; the rest is safe for concurrent use.
type fences struct {
	gather *kv.Gather
	store  *kv.Store
	ended  []int // ranks that have ended and can reach no fence
}

// maxFenced bounds the values of one fence together: they go to every host in
// one message.
const maxFenced = wire.MaxControl / 2

func newFences(store *kv.Store, size int) *fences {
	return &fences{gather: kv.NewGather(size), store: store}
}

// add takes one host's values and returns all when they are complete.
func (f *fences) add(part wire.Fence) (map[int][]byte, error) {
	all, err := f.gather.Add(part.Name, part.Values)
	bytes := 0
	for _, value := range all {
		bytes += len(value)
	}
	if bytes > maxFenced {
		return nil, fmt.Errorf("fence %q: the values of all ranks are %d bytes, at most %d allowed", part.Name, bytes, maxFenced)
	}
	return all, err
}

func (f *fences) rankEnded(rank int) { f.ended = append(f.ended, rank) }

// stuck is an error when ranks wait in a fence for one that has ended.
func (f *fences) stuck() error {
	if name, rank, stuck := f.gather.Stuck(f.ended); stuck {
		return fmt.Errorf("rank %d ended while others waited for it in fence %q", rank, name)
	}
	return nil
}
