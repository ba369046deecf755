package engine

import "github.com/gorun/gorun/ring/internal/collective"

// allToAll sends each rank its part of src, and puts what it gets into its parts of dst.
func (f *Fabric) allToAll(call *collective.Call, dst, src []byte) error {
	switch {
	case f.Whole() || call.Shape != 0 || !f.even():
		return f.allToAllDirect(call, dst, src)
	case f.split():
		for rank := range f.Size() {
			f.parts[rank] = f.part(dst, rank)
			f.given[rank] = f.toRank(src, rank)
		}
		return f.allToAllPeers()
	case f.bundles(len(src)):
		return f.allToAllBundled(call, dst, src)
	}
	return f.allToAllDirect(call, dst, src)
}

// toRank returns the part of a vector, cut at f.sends, that goes to rank.
func (f *Fabric) toRank(vector []byte, rank int) []byte {
	return vector[f.sends[rank]:f.sends[rank+1]]
}

// allToAllDirect exchanges with the ranks at each distance in turn, first inside the domain, then
// beyond it.
func (f *Fabric) allToAllDirect(call *collective.Call, dst, src []byte) error {
	copy(f.part(dst, f.rank), f.toRank(src, f.rank))
	near := f.mine()
	for i := 1; i < len(near); i++ {
		next := near[(f.index+i)%len(near)]
		last := near[(f.index-i+len(near))%len(near)]
		if err := f.swap(call, next, f.toRank(src, next), last, f.part(dst, last)); err != nil {
			return err
		}
	}
	for i := 1; i < f.Size(); i++ {
		next := (f.rank + i) % f.Size()
		last := (f.rank - i + f.Size()) % f.Size()
		var out, in []byte
		if f.Near(next) {
			next = none
		} else {
			out = f.toRank(src, next)
		}
		if f.Near(last) {
			last = none
		} else {
			in = f.part(dst, last)
		}
		if err := f.swap(call, next, out, last, in); err != nil {
			return err
		}
	}
	return nil
}

// bundles reports whether an all-to-all of vectors of n bytes, in equal parts, takes less time if
// the parts between two domains travel together.
func (f *Fabric) bundles(n int) bool {
	ranks := int64(f.Size())
	far := int64(f.Size() - len(f.mine()))
	direct := far * (f.cost.Alpha + int64(n)/ranks*f.cost.Slow)
	memory := 2 * int64(n) * f.cost.Gamma * memoryFactor
	return memory+f.cost.Best(collective.AllToAll, len(f.domains), n, 0) < direct
}

// allToAllBundled first gives every rank of the domain what its ranks send to that rank's
// counterparts. Then counterparts exchange what all ranks of their domains send to them: fewer and
// longer messages than between all ranks.
func (f *Fabric) allToAllBundled(call *collective.Call, dst, src []byte) error {
	near := f.mine()
	domains := len(f.domains)
	part := len(src) / f.Size()
	bundle := domains * part // bytes from one rank of this domain to all ranks of one number
	room := f.room((len(near) + 1) * bundle)
	came := room[:len(near)*bundle]
	out := room[len(near)*bundle:]
	for i := 1; i < len(near); i++ {
		next := (f.index + i) % len(near)
		last := (f.index - i + len(near)) % len(near)
		for d, ranks := range f.domains {
			copy(out[d*part:], f.toRank(src, ranks[next]))
		}
		in := came[last*bundle:][:bundle]
		// The sign has the length, unlike that of a direct exchange, which a rank with other
		// lengths may be in.
		if err := f.shared.Swap(collective.Word(call), next, pointer(out), len(out), last, pointer(in),
			len(in)); err != nil {
			return err
		}
	}
	for d, ranks := range f.domains {
		for i, rank := range ranks {
			at := d*len(near) + i
			f.parts[at] = f.part(dst, rank)
			f.given[at] = came[i*bundle+d*part:][:part]
			if i == f.index {
				f.given[at] = f.toRank(src, ranks[i])
			}
		}
	}
	return f.allToAllPeers()
}

// allToAllPeers exchanges f.given for f.parts.
func (f *Fabric) allToAllPeers() error {
	f.expect = f.sign // a rank in another call is reported with it
	return f.peers.AllToAll(&f.sign, f.parts, f.given)
}
