package ring

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/shm"
)

// What is at most smallStack long goes through one leader of each domain, whole.
// Longer vectors go in blocks of shardSize for each leader: while a block is with
// the network, the one before and the one behind it are in memory.
const (
	smallStack = 32 << 10
	shardSize  = 1 << 20
)

// allReduce combines src of all ranks into dst. They are the same, or have nothing in
// common.
func (f *fabric) allReduce(call Call, dst, src []byte) error {
	r := f.reduction(call)
	switch {
	case f.size() == 1:
		copy(dst, src)
		return nil
	case f.whole():
		return f.shared.AllReduce(call.sign(), r.Type, r.Op, pointer(dst), pointer(src), int(call.Count), max(1, r.Divisor))
	case f.split():
		return f.all.AllReduce(&f.sign, r, dst, src)
	case len(src) <= smallStack:
		return f.allReduceSmall(call, r, dst, src)
	}
	return f.stacked(len(src), func(lo, hi int) error {
		return f.reduceShard(call, r, dst[lo:hi], src[lo:hi])
	}, func(lo, hi int) step {
		return step{sign: &f.sign, reduce: r, buf: f.shard(dst[lo:hi], r.Type.Size()), root: -1}
	}, func(lo, hi int) error {
		return f.spread(call, dst[lo:hi], r.Type.Size())
	})
}

func (f *fabric) allReduceSmall(call Call, r algorithms.Reduction, dst, src []byte) error {
	if f.shared == nil {
		copy(dst, src)
	} else if err := f.shared.AllReduce(call.sign(), r.Type, r.Op, pointer(dst), pointer(src), len(src)/r.Type.Size(), 1); err != nil {
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
	return f.shared.Broadcast(call.sign(), pointer(dst), len(dst), 0)
}

// stacked takes n bytes through the three stages, block by block: before and after
// happen in memory, what across says happens between the leaders meanwhile.
func (f *fabric) stacked(n int, before func(lo, hi int) error, across func(lo, hi int) step, after func(lo, hi int) error) error {
	size := f.leaders * f.shardMax
	underWay := -1 // where the block begins that the courier has
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

// recall takes a block back from the courier after an error: nothing may touch the
// caller's memory any more.
func (f *fabric) recall(underWay int) {
	if underWay >= 0 && f.relay != nil {
		f.net.Interrupt()
		_ = f.relay.wait() // the error that is known came first
	}
}

// cut puts the leaders' shards of a vector into f.regions. The others have none.
func (f *fabric) cut(n, elem int) []shm.Region {
	for i := range f.regions {
		lo, hi := n, n
		if i < f.leaders {
			lo, hi = algorithms.Bounds(n, elem, i, f.leaders)
		}
		f.regions[i] = shm.Region{Off: lo, Len: hi - lo}
	}
	return f.regions
}

// shard is this leader's shard of a vector of elements of so many bytes.
func (f *fabric) shard(vector []byte, elem int) []byte {
	own := f.cut(len(vector), elem)[f.index]
	return vector[own.Off : own.Off+own.Len]
}

// reduceShard combines the domain's src into this rank's shard of dst.
func (f *fabric) reduceShard(call Call, r algorithms.Reduction, dst, src []byte) error {
	if f.shared == nil {
		copy(dst, src)
		return nil
	}
	own := f.shard(dst, r.Type.Size())
	return f.shared.ReduceScatter(call.sign(), r.Type, r.Op, pointer(own), pointer(src), f.regions, 1)
}

// spread gives the leaders' shards of a vector of elements of so many bytes to the
// whole domain.
func (f *fabric) spread(call Call, vector []byte, elem int) error {
	if f.shared == nil {
		return nil
	}
	own := f.shard(vector, elem)
	return f.shared.AllGatherV(call.sign(), pointer(vector), pointer(own), f.regions)
}

// broadcast copies root's buf to all.
func (f *fabric) broadcast(call Call, buf []byte) error {
	root := int(call.Root)
	switch {
	case f.size() == 1:
		return nil
	case f.whole():
		return f.shared.Broadcast(call.sign(), pointer(buf), len(buf), f.place(root))
	case f.split():
		return f.all.Broadcast(&f.sign, buf, root)
	}
	home := f.at[root]
	within := func(lo, hi int) error {
		if f.domain != home || f.shared == nil {
			return nil
		}
		return f.shared.Broadcast(call.sign(), pointer(buf[lo:hi]), hi-lo, f.place(root))
	}
	if len(buf) <= smallStack {
		return f.broadcastSmall(call, buf, home, within)
	}
	return f.stacked(len(buf), within, func(lo, hi int) step {
		return step{sign: &f.sign, buf: f.shard(buf[lo:hi], 1), root: home}
	}, func(lo, hi int) error {
		if f.domain == home {
			return nil
		}
		return f.spread(call, buf[lo:hi], 1)
	})
}

func (f *fabric) broadcastSmall(call Call, buf []byte, home int, within func(lo, hi int) error) error {
	if err := within(0, len(buf)); err != nil {
		return err
	}
	if f.index == 0 {
		if err := f.peers.Broadcast(&f.sign, buf, home); err != nil {
			return err
		}
	}
	if f.domain == home || f.shared == nil {
		return nil
	}
	return f.shared.Broadcast(call.sign(), pointer(buf), len(buf), 0)
}
