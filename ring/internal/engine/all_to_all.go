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

// allToAllDirect exchanges with each rank in turn.
func (f *Fabric) allToAllDirect(call *collective.Call, dst, src []byte) error {
	copy(f.part(dst, f.rank), f.toRank(src, f.rank))
	return f.eachPair(func(to, from int) error {
		var out, in []byte
		if to != none {
			out = f.toRank(src, to)
		}
		if from != none {
			in = f.part(dst, from)
		}
		return f.swap(call, to, out, from, in)
	})
}

// eachPair calls swap with the ranks at each distance in turn, first inside the domain, then beyond
// it. Either may be none.
func (f *Fabric) eachPair(swap func(to, from int) error) error {
	near := f.mine()
	for i := 1; i < len(near); i++ {
		if err := swap(near[(f.index+i)%len(near)], near[(f.index-i+len(near))%len(near)]); err != nil {
			return err
		}
	}
	for i := 1; i < f.Size(); i++ {
		to := (f.rank + i) % f.Size()
		from := (f.rank - i + f.Size()) % f.Size()
		if f.Near(to) {
			to = none
		}
		if f.Near(from) {
			from = none
		}
		if err := swap(to, from); err != nil {
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
