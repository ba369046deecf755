package shm

import "unsafe"

// Broadcast copies the bytes at buf of rank root to buf of every other rank.
func (g *Group) Broadcast(sign uint64, buf unsafe.Pointer, bytes, root int) error {
	if bytes <= cellSize {
		return g.exchange(sign, buf, bytes, func(srcs []unsafe.Pointer) {
			if g.rank != root {
				copyPart(buf, srcs[root], 0, bytes)
			}
		})
	}
	first := g.advance(bytes)
	for b := range blocks(bytes) {
		n, off, size := first+uint32(b), b*slotSize, min(slotSize, bytes-b*slotSize)
		if g.rank == root {
			if err := g.free(n); err != nil {
				return err
			}
			copyPart(g.slot(root, n), unsafe.Add(buf, off), 0, size)
			g.put(n, sign)
		} else {
			if err := g.hear(root, n, sign); err != nil {
				return err
			}
			copyPart(unsafe.Add(buf, off), g.slot(root, n), 0, size)
		}
		g.seg.controls[g.rank].done.set(n + 1)
	}
	return nil
}

// AllGather copies the bytes at src of all ranks, by rank, to dst of every rank.
// src may be this rank's place in dst.
func (g *Group) AllGather(sign uint64, dst, src unsafe.Pointer, bytes int) error {
	if bytes <= cellSize {
		return g.exchange(sign, src, bytes, func(srcs []unsafe.Pointer) {
			for q, from := range srcs {
				copyPart(g.part(dst, q, bytes), from, 0, bytes)
			}
		})
	}
	first := g.advance(bytes)
	copyPart(g.part(dst, g.rank, bytes), src, 0, bytes)
	for b := range blocks(bytes) {
		n, off, size := first+uint32(b), b*slotSize, min(slotSize, bytes-b*slotSize)
		if err := g.free(n); err != nil {
			return err
		}
		copyPart(g.slot(g.rank, n), unsafe.Add(src, off), 0, size)
		g.put(n, sign)
		for i := 1; i < g.size; i++ {
			q := (g.rank + i) % g.size // not all at the same rank's slot at once
			if err := g.hear(q, n, sign); err != nil {
				return err
			}
			copyPart(unsafe.Add(g.part(dst, q, bytes), off), g.slot(q, n), 0, size)
		}
		g.seg.controls[g.rank].done.set(n + 1)
	}
	return nil
}

// part is rank q's place in an array of parts of bytes each.
func (g *Group) part(dst unsafe.Pointer, q, bytes int) unsafe.Pointer {
	if bytes == 0 {
		return dst // the parts of nothing all begin here, and none lies past the end
	}
	return unsafe.Add(dst, q*bytes)
}

// advance numbers the blocks of a call.
func (g *Group) advance(bytes int) (first uint32) {
	first = g.block
	g.block += uint32(blocks(bytes))
	return first
}

// blocks is how many slots' worth of bytes there are.
func blocks(bytes int) int { return (bytes + slotSize - 1) / slotSize }
