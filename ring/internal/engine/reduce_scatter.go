package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/shm"
)

// reduceScatter combines src of all ranks and puts this rank's part of the result into dst.
func (f *Fabric) reduceScatter(call *collective.Call, dst, src []byte) error {
	r := f.reduction(call)
	switch {
	case f.Size() == 1:
		copy(dst, src)
		return nil
	case f.Whole():
		for i, rank := range f.mine() {
			f.regions[i] = shm.Region{Off: f.offs[rank], Len: f.offs[rank+1] - f.offs[rank]}
		}
		return f.shared.ReduceScatter(collective.Word(call), r.Type, r.Op, pointer(dst), pointer(src), f.regions,
			max(1, r.Divisor))
	case f.flows(r) || !f.contiguous():
		for rank := range f.Size() {
			f.parts[rank] = f.part(src, rank)
		}
		return f.all.ReduceScatter(&f.sign, r, dst, f.parts)
	}
	return f.reduceScatterStacked(call, r, dst, src)
}

// reduceScatterStacked gives every leader its shard of each domain's parts from its own
// domain, combines the leaders' shards over the network, and shares the result inside the domain.
func (f *Fabric) reduceScatterStacked(call *collective.Call, r algorithms.Reduction, dst, src []byte) error {
	elem := call.Type.Size()
	home := len(f.territory(src, f.domain))
	room := f.room(home + 64 + len(src)/f.leaders + len(f.domains)*(elem+64))
	result := room[:home]
	room = room[(home+63)&^63:]
	for d := range f.domains {
		from := f.territory(src, d)
		regions := f.cut(len(from), elem)
		into := room[:regions[f.index].Len]
		room = room[(len(into)+63)&^63:]
		f.parts[d] = into
		if f.shared == nil {
			copy(into, from)
		} else if err := f.shared.ReduceScatter(collective.Word(call), r.Type, r.Op, pointer(into), pointer(from),
			regions, 1); err != nil {
			return err
		}
	}
	if f.peers != nil {
		if err := f.peers.ReduceScatter(&f.sign, r, f.shard(result, elem), f.parts[:len(f.domains)]); err != nil {
			return err
		}
	}
	if err := f.spread(call, result, elem); err != nil {
		return err
	}
	base := f.offs[f.mine()[0]]
	copy(dst, result[f.offs[f.rank]-base:])
	return nil
}
