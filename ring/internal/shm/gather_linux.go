package shm

import "unsafe"

// Broadcast copies the bytes at buf of rank root to buf of every other rank.
func (g *Group) Broadcast(sign uint64, buf unsafe.Pointer, bytes, root int) error {
	if bytes <= cellSize {
		cell := g.begin(bytes)
		if g.rank == root {
			copyPart(cell, 0, buf, 0, bytes)
		}
		if err := g.exchange(sign); err != nil {
			return err
		}
		if g.rank != root {
			copyPart(buf, 0, g.srcs[root], 0, bytes)
		}
		return nil
	}
	first := g.advance(ceil(bytes, slotSize))
	for b := range ceil(bytes, slotSize) {
		n := first + uint32(b)
		off := b * slotSize
		size := min(slotSize, bytes-b*slotSize)
		if g.rank == root {
			if err := g.free(n); err != nil {
				return err
			}
			copyPart(g.slot(root, n), 0, buf, off, size)
			g.put(n, sign)
		} else {
			if err := g.hear(root, n, sign); err != nil {
				return err
			}
			copyPart(buf, off, g.slot(root, n), 0, size)
		}
		g.seg.controls[g.rank].done.set(n + 1)
	}
	g.settle()
	return nil
}

// AllGatherV copies every rank's region of the vector at buf to all ranks; src is
// this rank's, and may be its place in buf. Regions, by rank, need not cover the
// vector, may be empty or of unlike length, and do not overlap. sign and regions
// must be equal on all ranks.
func (g *Group) AllGatherV(sign uint64, buf, src unsafe.Pointer, regions []Region) error {
	c := gathering{
		g:       g,
		sign:    sign,
		buf:     buf,
		src:     src,
		regions: regions,
		most:    longest(regions),
	}
	if c.most <= cellSize {
		return c.small()
	}
	return g.tuned(gatherings, c.most, c.run)
}

// gathering is one all-gather. A block of it is a slot's worth of every rank's
// region.
type gathering struct {
	g        *Group
	sign     uint64
	buf, src unsafe.Pointer
	regions  []Region // by rank
	most     int      // bytes of the longest region
	stage    staging
}

// small gathers in one round.
func (c *gathering) small() error {
	mine := c.regions[c.g.rank]
	g := c.g
	copyPart(g.begin(c.most), 0, c.src, 0, mine.Len)
	if err := g.exchange(c.sign); err != nil {
		return err
	}
	for q, from := range g.srcs {
		if q == g.rank {
			from = c.src
		}
		copyPart(c.buf, c.regions[q].Off, from, 0, c.regions[q].Len)
	}
	return nil
}

func (c *gathering) run(stage staging) error {
	c.stage = stage.of(c.most * c.g.size)
	blocks := ceil(c.most, slotSize)
	first := c.g.advance(blocks)
	if err := c.copyIn(first, 0); err != nil {
		return err
	}
	for b := range blocks {
		if b+1 < blocks {
			if err := c.copyIn(first, b+1); err != nil {
				return err
			}
		}
		if err := c.copyOut(first, b); err != nil {
			return err
		}
	}
	c.g.settle()
	return nil
}

// block returns the part of rank q's region that is in block b.
func (c *gathering) block(q, b int) (r Region, off, length int) {
	r = c.regions[q]
	off = b * slotSize
	return r, off, max(0, min(slotSize, r.Len-off))
}

// copyIn copies a part of this rank's region into its slot, and to its offset in buf.
func (c *gathering) copyIn(first uint32, b int) error {
	g := c.g
	n := first + uint32(b)
	if err := g.free(n); err != nil {
		return err
	}
	mine, off, length := c.block(g.rank, b)
	switch slot := g.slot(g.rank, n); {
	case length == 0:
		g.put(n, c.sign)
	case c.stage == streamed:
		g.kernels.CopyTwice(unsafe.Add(c.buf, mine.Off+off), slot, unsafe.Add(c.src, off), length)
		g.put(n, c.sign)
	default:
		g.write(c.stage, slot, unsafe.Add(c.src, off), length)
		g.put(n, c.sign)
		copyPart(c.buf, mine.Off+off, c.src, off, length)
	}
	return nil
}

func (c *gathering) copyOut(first uint32, b int) error {
	g := c.g
	n := first + uint32(b)
	for i := 1; i < g.size; i++ {
		q := (g.rank + i) % g.size // spread the first reads over the slots
		if err := g.hear(q, n, c.sign); err != nil {
			return err
		}
		r, off, length := c.block(q, b)
		g.result(c.stage, c.buf, r.Off+off, g.slot(q, n), 0, length)
	}
	g.seg.controls[g.rank].done.set(n + 1)
	return nil
}

// result copies the n bytes at their offsets to the caller's memory.
func (g *Group) result(stage staging, dst unsafe.Pointer, dstOff int, src unsafe.Pointer, srcOff, n int) {
	if stage == streamed && n > 0 {
		g.kernels.CopyNT(unsafe.Add(dst, dstOff), unsafe.Add(src, srcOff), n)
		return
	}
	copyPart(dst, dstOff, src, srcOff, n)
}
