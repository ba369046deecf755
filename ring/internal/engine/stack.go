package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/shm"
)

// Where ranks of some domains share memory, a short vector goes through one leader of each domain,
// whole. A longer one goes in blocks, of which each leader has a shard: while a block is on the
// network, its neighbours are combined in memory.

// memoryFactor is how much longer than combining a byte it takes to bring it into or out of a
// domain.
const memoryFactor = 3

// minShard is the least that a leader has of a block, in bytes.
const minShard = 64 << 10

// short reports whether a vector of n bytes goes through one leader of each domain.
func (f *Fabric) short(k collective.Kind, n, root int) bool {
	if f.shardMax > 0 {
		return n <= 2*f.shardMax
	}
	whole := f.cost.Best(k, len(f.domains), n, root) + int64(n)*f.cost.Gamma*memoryFactor
	return whole <= f.cost.Best(k, len(f.domains), n/f.leaders, root)+2*f.cost.Overhead
}

// blockSize returns how many bytes of a vector of n go through the stages at once: so many that
// the whole takes the least time.
func (f *Fabric) blockSize(k collective.Kind, n, root int) int {
	if f.shardMax > 0 {
		return f.leaders * f.shardMax
	}
	best := 0
	least := int64(0)
	for shard := minShard; ; shard *= 2 {
		block := min(f.leaders*shard, n)
		count := int64((n + block - 1) / block)
		memory := 2 * int64(block) * f.cost.Gamma * memoryFactor
		network := f.cost.Best(k, len(f.domains), block/f.leaders, root) + f.cost.Overhead
		if t := memory + (count-1)*max(memory, network) + network; best == 0 || t <= least {
			best = f.leaders * shard
			least = t
		}
		if block == n {
			return best
		}
	}
}

// stacked takes n bytes through three stages, in blocks of size: before and after run in
// memory, and across runs between the leaders meanwhile.
func (f *Fabric) stacked(n, size int, before func(lo, hi int) error, across func(lo, hi int) step,
	after func(lo, hi int) error) error {
	underWay := -1 // offset of the worker's block, or -1
	finish := func() error {
		lo := underWay
		underWay = -1
		if f.relay != nil {
			if err := f.relay.wait(); err != nil {
				return err
			}
		}
		return after(lo, min(lo+size, n))
	}
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		if err := before(lo, hi); err != nil {
			f.recall(underWay)
			return err
		}
		last := underWay
		if f.relay != nil {
			if last >= 0 {
				if err := f.relay.wait(); err != nil {
					return err
				}
			}
			f.relay.start(across(lo, hi))
		}
		underWay = lo
		if last >= 0 {
			if err := after(last, last+size); err != nil {
				f.recall(underWay)
				return err
			}
		}
	}
	return finish()
}

// recall waits for the worker's block after an error: nothing may touch the caller's memory after
// the call.
func (f *Fabric) recall(underWay int) {
	if underWay >= 0 && f.relay != nil {
		f.net.Interrupt()
		_ = f.relay.wait() // the known error came first
	}
}

// cut puts the leaders' shards of a vector into f.regions. Other ranks have empty ones.
func (f *Fabric) cut(n, elem int) []shm.Region {
	for i := range f.regions {
		lo := n
		hi := n
		if i < f.leaders {
			lo, hi = algorithms.Bounds(n, elem, i, f.leaders)
		}
		f.regions[i] = shm.Region{Off: lo, Len: hi - lo}
	}
	return f.regions
}

// shard returns this leader's shard of a vector whose elements have elem bytes.
func (f *Fabric) shard(vector []byte, elem int) []byte {
	own := f.cut(len(vector), elem)[f.index]
	return vector[own.Off : own.Off+own.Len]
}

// reduceShard combines the domain's src into this rank's shard of dst.
func (f *Fabric) reduceShard(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	if f.shared == nil {
		copy(dst, src)
		return nil
	}
	own := f.shard(dst, r.Type.Size())
	return f.shared.ReduceScatter(collective.Word(call), r.Type, r.Op, pointer(own), pointer(src), f.regions, 1)
}

// spread gives the leaders' shards of a vector to the whole domain.
func (f *Fabric) spread(call *collective.Call, vector []byte, elem int) error {
	if f.shared == nil {
		return nil
	}
	own := f.shard(vector, elem)
	return f.shared.AllGatherV(collective.Word(call), pointer(vector), pointer(own), f.regions)
}
