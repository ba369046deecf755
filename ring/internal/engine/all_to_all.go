package engine

// allToAll exchanges with the ranks at each distance in turn, first inside the domain, then
// beyond it.
func (f *Fabric) allToAll(call *Call, dst, src []byte) error {
	to := func(rank int) []byte { return src[f.sends[rank]:f.sends[rank+1]] }
	copy(f.part(dst, f.rank), to(f.rank))
	near := f.mine()
	for i := 1; i < len(near); i++ {
		next, last := near[(f.index+i)%len(near)], near[(f.index-i+len(near))%len(near)]
		if err := f.swap(call, next, to(next), last, f.part(dst, last)); err != nil {
			return err
		}
	}
	for i := 1; i < f.Size(); i++ {
		next, last := (f.rank+i)%f.Size(), (f.rank-i+f.Size())%f.Size()
		var out, in []byte
		if f.Near(next) {
			next = none
		} else {
			out = to(next)
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
