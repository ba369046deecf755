package engine

import "github.com/gorun/gorun/ring/internal/collective"

// scatter gives every rank its part of the root's src.
func (f *Fabric) scatter(call *collective.Call, dst, src []byte) error {
	root := int(call.Root)
	if f.rank != root {
		return f.swap(call, none, nil, root, dst)
	}
	copy(dst, f.part(src, root))
	for i := 1; i < f.Size(); i++ {
		to := (root + i) % f.Size()
		if err := f.swap(call, to, f.part(src, to), none, nil); err != nil {
			return err
		}
	}
	return nil
}
