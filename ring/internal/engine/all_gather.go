package engine

import (
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/shm"
)

// allGather puts every rank's src into its part of dst.
func (f *Fabric) allGather(call *collective.Call, dst, src []byte) error {
	if f.Size() > 1 && f.Whole() {
		return f.gatherNear(call, dst, src) // it also puts src in its place
	}
	own := f.part(dst, f.rank)
	if len(own) > 0 && &own[0] != &src[0] {
		copy(own, src)
	}
	switch {
	case f.Size() == 1:
		return nil
	case f.split() || !f.contiguous():
		for rank := range f.Size() {
			f.parts[rank] = f.part(dst, rank)
		}
		return f.all.AllGather(&f.sign, f.parts)
	}
	// the domain's parts to each of its ranks
	if err := f.gatherNear(call, dst, own); err != nil {
		return err
	}
	// each leader's shard of them to its counterparts
	if f.peers != nil {
		for d := range f.domains {
			f.parts[d] = f.shard(f.territory(dst, d), call.Type.Size())
		}
		if err := f.peers.AllGather(&f.sign, f.parts[:len(f.domains)]); err != nil {
			return err
		}
	}
	// and what they got to the ranks of their domain
	for d := range f.domains {
		if d != f.domain {
			if err := f.spread(call, f.territory(dst, d), call.Type.Size()); err != nil {
				return err
			}
		}
	}
	return nil
}

// gatherNear gives each part of this domain to all its ranks, this rank's from src.
func (f *Fabric) gatherNear(call *collective.Call, dst, src []byte) error {
	if f.shared == nil {
		return nil
	}
	for i, rank := range f.mine() {
		f.regions[i] = shm.Region{Off: f.offs[rank], Len: f.offs[rank+1] - f.offs[rank]}
	}
	return f.shared.AllGatherV(collective.Word(call), pointer(dst), pointer(src), f.regions)
}

// territory returns the part of a vector, cut at f.offs, that belongs to the ranks of domain d.
// Their ranks are consecutive.
func (f *Fabric) territory(vector []byte, d int) []byte {
	ranks := f.domains[d]
	return vector[f.offs[ranks[0]]:f.offs[ranks[len(ranks)-1]+1]]
}
