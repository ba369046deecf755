package ring

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/shm"
)

// allGather puts every rank's src into its part of dst.
func (f *fabric) allGather(call Call, dst, src []byte) error {
	own := f.part(dst, f.rank)
	if len(own) > 0 && &own[0] != &src[0] {
		copy(own, src)
	}
	switch {
	case f.size() == 1:
		return nil
	case f.whole():
		return f.gatherNear(call, dst)
	case f.split() || !f.contiguous():
		for rank := range f.size() {
			f.parts[rank] = f.part(dst, rank)
		}
		return f.all.AllGather(&f.sign, f.parts)
	}
	// the domain's parts to each of its ranks
	if err := f.gatherNear(call, dst); err != nil {
		return err
	}
	// each leader's shard of them to its counterparts
	if f.peers != nil {
		for d := range f.domains {
			f.parts[d] = f.shard(f.territory(dst, d), call.Type.size())
		}
		if err := f.peers.AllGather(&f.sign, f.parts[:len(f.domains)]); err != nil {
			return err
		}
	}
	// and what they got to the ranks of their domain
	for d := range f.domains {
		if d != f.domain {
			if err := f.spread(call, f.territory(dst, d), call.Type.size()); err != nil {
				return err
			}
		}
	}
	return nil
}

// gatherNear gives every rank of the domain's part of dst to all of them.
func (f *fabric) gatherNear(call Call, dst []byte) error {
	if f.shared == nil {
		return nil
	}
	for i, rank := range f.mine() {
		f.regions[i] = shm.Region{Off: f.offs[rank], Len: f.offs[rank+1] - f.offs[rank]}
	}
	return f.shared.AllGatherV(call.sign(), pointer(dst), pointer(f.part(dst, f.rank)), f.regions)
}

// territory is what the ranks of domain d have of a vector that is cut at f.offs. Their
// ranks are consecutive.
func (f *fabric) territory(vector []byte, d int) []byte {
	ranks := f.domains[d]
	return vector[f.offs[ranks[0]]:f.offs[ranks[len(ranks)-1]+1]]
}

// reduceScatter combines src of all ranks; this rank's part of the result goes to dst.
func (f *fabric) reduceScatter(call Call, dst, src []byte) error {
	r := f.reduction(call)
	switch {
	case f.size() == 1:
		copy(dst, src)
		return nil
	case f.whole():
		for i, rank := range f.mine() {
			f.regions[i] = shm.Region{Off: f.offs[rank], Len: f.offs[rank+1] - f.offs[rank]}
		}
		return f.shared.ReduceScatter(call.sign(), r.Type, r.Op, pointer(dst), pointer(src), f.regions, max(1, r.Divisor))
	case f.split() || !f.contiguous():
		for rank := range f.size() {
			f.parts[rank] = f.part(src, rank)
		}
		return f.all.ReduceScatter(&f.sign, r, dst, f.parts)
	}
	return f.reduceScatterStacked(call, r, dst, src)
}

// reduceScatterStacked: every leader gets its shard of each domain's parts from its own
// domain, the leaders combine what they have for each domain, and every domain sorts
// out its parts.
func (f *fabric) reduceScatterStacked(call Call, r algorithms.Reduction, dst, src []byte) error {
	elem := call.Type.size()
	home := len(f.territory(src, f.domain))
	room := f.room(home + 64 + len(src)/f.leaders + len(f.domains)*(elem+64))
	result, room := room[:home], room[(home+63)&^63:]
	for d := range f.domains {
		from := f.territory(src, d)
		regions := f.cut(len(from), elem)
		into := room[:regions[f.index].Len]
		room = room[(len(into)+63)&^63:]
		f.parts[d] = into
		if f.shared == nil {
			copy(into, from)
		} else if err := f.shared.ReduceScatter(call.sign(), r.Type, r.Op, pointer(into), pointer(from), regions, 1); err != nil {
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

// reduce combines src of all ranks into dst of the root.
func (f *fabric) reduce(call Call, dst, src []byte) error {
	r, root := f.reduction(call), int(call.Root)
	switch {
	case f.size() == 1:
		copy(dst, src)
		return nil
	case f.whole():
		return f.shared.Reduce(call.sign(), r.Type, r.Op, pointer(dst), pointer(src), int(call.Count), max(1, r.Divisor), f.place(root))
	}
	if len(src) <= smallStack {
		if f.rank != root {
			dst = f.room(len(src))
		}
		if f.split() {
			return f.all.AllReduce(&f.sign, r, dst, src)
		}
		return f.allReduceSmall(call, r, dst, src)
	}
	// Everybody finishes a part, and the root collects them.
	elem := call.Type.size()
	f.offs[0] = 0
	for rank := range f.size() {
		f.offs[rank+1] = f.offs[rank] + len(algorithms.Span(src, elem, rank, f.size()))
	}
	if n := len(f.part(src, f.rank)); cap(f.own) < n {
		f.own = bytesOf(make([]float64, (n+7)/8))
	}
	mine := f.own[:len(f.part(src, f.rank))]
	if err := f.reduceScatter(call, mine, src); err != nil {
		return err
	}
	return f.gather(call, dst, mine)
}
