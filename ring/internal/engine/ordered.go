package engine

import (
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// ReduceInRankOrder makes the bits of all reductions depend on the ranks' numbers only, and not on
// their hosts: they are combined in the order of a [kernel.Tree]. All ranks call it, before the
// first collective.
//
// A domain whose ranks are half of the tree, or of a half, combines their vectors before. If some
// domain is none, all ranks send each other theirs by flows.
func (f *Fabric) ReduceInRankOrder() {
	if f.shared != nil {
		f.shared.ReduceInRankOrder()
	}
	if f.Whole() {
		return
	}
	f.all.Order(kernel.NewTree(f.kernels, kernel.Ranks(f.Size())))
	if f.split() {
		return
	}
	starts := []int{}
	for _, domain := range f.domains {
		starts = append(starts, domain[0])
	}
	domains := kernel.NewTree(f.kernels, append(starts, f.Size()))
	if !f.contiguous() || domains == nil {
		f.flat = true
	} else if f.peers != nil {
		f.peers.Order(domains)
	}
}

// flows reports whether a reduction is made by flows between all ranks.
func (f *Fabric) flows(r algorithms.Reduction) bool { return f.split() || f.flat && r.Type.Float() }
