package engine

import "github.com/gorun/gorun/ring/internal/collective"

// gather puts every rank's src into its part of the root's dst.
func (f *Fabric) gather(call *collective.Call, dst, src []byte) error {
	root := int(call.Root)
	if f.rank != root {
		return f.swap(call, root, src, none, nil)
	}
	copy(f.part(dst, root), src)
	for i := 1; i < f.Size(); i++ {
		from := (root + i) % f.Size()
		if err := f.swap(call, none, nil, from, f.part(dst, from)); err != nil {
			return err
		}
	}
	return nil
}
