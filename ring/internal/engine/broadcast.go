package engine

import "github.com/gorun/gorun/ring/internal/collective"

// broadcast copies the root's buf to all ranks.
func (f *Fabric) broadcast(call *collective.Call, buf []byte) error {
	root := int(call.Root)
	switch {
	case f.Size() == 1:
		return nil
	case f.Whole():
		return f.shared.Broadcast(collective.Word(call), pointer(buf), len(buf), f.place(root))
	case f.split():
		return f.all.Broadcast(&f.sign, buf, root)
	}
	home := f.at[root]
	within := func(lo, hi int) error {
		if f.domain != home || f.shared == nil {
			return nil
		}
		return f.shared.Broadcast(collective.Word(call), pointer(buf[lo:hi]), hi-lo, f.place(root))
	}
	if f.short(collective.Broadcast, len(buf), home) {
		return f.broadcastSmall(call, buf, home, within)
	}
	return f.stacked(len(buf), f.blockSize(collective.Broadcast, len(buf), home), within, func(lo, hi int) step {
		return step{
			kind: collective.Broadcast,
			sign: &f.sign,
			buf:  f.shard(buf[lo:hi], 1),
			root: home,
		}
	}, func(lo, hi int) error {
		if f.domain == home {
			return nil
		}
		return f.spread(call, buf[lo:hi], 1)
	})
}

// broadcastSmall sends the whole vector to the first leader of each domain, which
// broadcasts it inside.
func (f *Fabric) broadcastSmall(call *collective.Call, buf []byte, home int, within func(lo, hi int) error) error {
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
	return f.shared.Broadcast(collective.Word(call), pointer(buf), len(buf), 0)
}
