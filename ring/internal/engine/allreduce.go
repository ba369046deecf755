package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
)

// allReduce combines src of all ranks into dst and picks the algorithm: shared memory alone
// where all ranks share it, the network alone (algorithms.Team.AllReduce picks by length)
// where no two do, else both stacked, whole for short vectors and in blocks for long ones.
// Dst and src are the same, or share no memory.
func (f *Fabric) allReduce(call *collective.Call, dst, src []byte) error {
	r := f.reduction(call)
	switch {
	case f.Size() == 1:
		copy(dst, src)
		return nil
	case f.Whole():
		return f.shared.AllReduce(collective.Word(call), r.Type, r.Op, pointer(dst), pointer(src), int(call.Count),
			max(1, r.Divisor))
	case f.flows(r):
		return f.all.AllReduce(&f.sign, r, dst, src)
	case f.short(collective.AllReduce, len(src), 0):
		return f.allReduceSmall(call, r, dst, src)
	}
	return f.stacked(len(src), f.blockSize(collective.AllReduce, len(src), 0), func(lo, hi int) error {
		return f.reduceShard(call, r, dst[lo:hi], src[lo:hi])
	}, func(lo, hi int) step {
		return step{
			kind:   collective.AllReduce,
			sign:   &f.sign,
			reduce: r,
			buf:    f.shard(dst[lo:hi], r.Type.Size()),
		}
	}, func(lo, hi int) error {
		return f.spread(call, dst[lo:hi], r.Type.Size())
	})
}

// allReduceSmall reduces the whole vector at the first leader of each domain, combines the
// leaders' vectors over the network, and broadcasts the result inside the domains.
func (f *Fabric) allReduceSmall(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	if f.shared == nil {
		copy(dst, src)
	} else if err := f.shared.AllReduce(collective.Word(call), r.Type, r.Op, pointer(dst), pointer(src),
		len(src)/r.Type.Size(), 1); err != nil {
		return err
	}
	if f.index == 0 {
		if err := f.peers.AllReduce(&f.sign, r, dst, dst); err != nil {
			return err
		}
	}
	if f.shared == nil {
		return nil
	}
	return f.shared.Broadcast(collective.Word(call), pointer(dst), len(dst), 0)
}
