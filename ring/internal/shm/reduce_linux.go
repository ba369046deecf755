package shm

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// AllReduce sets the count elements of dst to op over the src of all ranks, in
// rank order, times 1/divisor. dst may be src. sign must be equal on all ranks.
func (g *Group) AllReduce(sign uint64, t kernel.Type, op kernel.Op, dst, src unsafe.Pointer, count,
	divisor int) error {
	return g.Reduce(sign, t, op, dst, src, count, divisor, everyone)
}

// Reduce is AllReduce where only rank root gets the result; dst of the others is
// not used. root must be equal on all ranks.
func (g *Group) Reduce(sign uint64, t kernel.Type, op kernel.Op, dst, src unsafe.Pointer, count, divisor,
	root int) error {
	bytes := count * t.Size()
	if bytes <= cellSize {
		if root != everyone && root != g.rank {
			dst = nil
		}
		return g.reduceSmall(sign, t, op, dst, src, count, divisor)
	}
	r := reduction{
		g:       g,
		sign:    sign,
		t:       t,
		op:      op,
		dst:     dst,
		src:     src,
		divisor: divisor,
		bytes:   bytes,
		root:    root,
	}
	return g.tuned(reducing, bytes, r.run)
}

// reduceSmall reduces in one round: every rank adds all. A nil dst gets nothing.
func (g *Group) reduceSmall(sign uint64, t kernel.Type, op kernel.Op, dst, src unsafe.Pointer, count,
	divisor int) error {
	bytes := count * t.Size()
	kernel.Copy(g.begin(bytes), src, bytes)
	if err := g.exchange(sign); err != nil || dst == nil {
		return err
	}
	g.combine(t, op, dst, count, divisor)
	return nil
}

// combine reduces count elements at g.srcs, in rank order.
func (g *Group) combine(t kernel.Type, op kernel.Op, dst unsafe.Pointer, count, divisor int) {
	if g.order != nil {
		g.order.Reduce(t, op, dst, g.srcs, count)
	} else {
		g.kernels.Reduce(t, op, dst, g.srcs, count)
	}
	if divisor > 1 {
		g.kernels.Divide(t, dst, dst, count, divisor)
	}
}

// ReduceScatter sets dst, this rank's region, to op over the src of all ranks, in
// rank order, times 1/divisor. The src are whole vectors; regions, by rank, are
// parts of them in whole elements. They need not cover the vector, may be empty or
// of unlike length, and do not overlap. dst is this rank's region of src itself,
// or has nothing in common with src. sign and regions must be equal on all ranks.
func (g *Group) ReduceScatter(sign uint64, t kernel.Type, op kernel.Op, dst, src unsafe.Pointer, regions []Region,
	divisor int) error {
	bytes := 0
	owners := 0
	for _, r := range regions {
		bytes += r.Len
		owners += min(r.Len, 1)
	}
	if bytes <= cellSize {
		return g.scatterSmall(sign, t, op, dst, src, regions, divisor)
	}
	r := reduction{
		g:       g,
		sign:    sign,
		t:       t,
		op:      op,
		dst:     dst,
		src:     src,
		divisor: divisor,
		bytes:   bytes,
		root:    nobody,
		regions: regions,
		per:     slotSize / owners &^ 63,
	}
	return g.tuned(scattering, bytes, r.run)
}

// scatterSmall is a ReduceScatter in one round: a message holds all regions, one
// after the other.
func (g *Group) scatterSmall(sign uint64, t kernel.Type, op kernel.Op, dst, src unsafe.Pointer, regions []Region,
	divisor int) error {
	bytes := 0
	mine := 0
	for q, r := range regions {
		if q == g.rank {
			mine = bytes
		}
		bytes += r.Len
	}
	cell := g.begin(bytes)
	at := 0
	for _, r := range regions {
		copyPart(cell, at, src, r.Off, r.Len)
		at += r.Len
	}
	length := regions[g.rank].Len
	if err := g.exchange(sign); err != nil || length == 0 {
		return err
	}
	for q := range g.srcs {
		g.srcs[q] = unsafe.Add(g.srcs[q], mine)
	}
	g.combine(t, op, dst, length/t.Size(), divisor)
	return nil
}

// The ranks that copy the results of a reduction out of the slots, if not one rank.
const (
	everyone = -1
	nobody   = -2 // every rank keeps its own
)

// reduction is one large reduction, block by block. A block is at most a slot,
// and has one stripe per rank, which that rank reduces. See the package comment
// for the steps.
//
// The blocks of an allreduce are those of the vector, each cut into stripes. In
// a reduce-scatter the stripes of block b are the b-th pieces of all regions, so
// that here too all ranks add in every block.
type reduction struct {
	g        *Group
	sign     uint64
	t        kernel.Type
	op       kernel.Op
	dst, src unsafe.Pointer
	divisor  int
	bytes    int // bytes of the vector
	root     int // copies the others' stripes: a rank, everyone or nobody
	stage    staging

	regions []Region // regions by rank of a reduce-scatter; else nil
	per     int      // bytes of a stripe, of a reduce-scatter
}

func (r *reduction) run(stage staging) error {
	r.stage = stage.of(r.bytes)
	if r.stage == streamed && r.dst == r.src {
		r.stage = throughCache // the lines of the result were read a moment ago
	}
	blocks := r.blocks()
	first := r.g.advance(blocks)
	if err := r.copyIn(first, 0); err != nil {
		return err
	}
	for b := range blocks {
		if b+1 < blocks {
			if err := r.copyIn(first, b+1); err != nil {
				return err
			}
		}
		if err := r.reduce(first, b); err != nil {
			return err
		}
		// A block late: the others had time to finish it.
		if b > 0 {
			if err := r.copyOut(first, b-1); err != nil {
				return err
			}
		}
	}
	if err := r.copyOut(first, blocks-1); err != nil {
		return err
	}
	r.g.settle()
	return nil
}

func (r *reduction) blocks() int {
	if r.regions == nil {
		return ceil(r.bytes, slotSize)
	}
	return ceil(longest(r.regions), r.per)
}

// longest returns the length of the longest region.
func longest(regions []Region) int {
	most := 0
	for _, r := range regions {
		most = max(most, r.Len)
	}
	return most
}

// stripe returns rank q's part of block b of an allreduce: its offsets in the vector and in
// a slot, and its length, in bytes.
func (r *reduction) stripe(q, b int) (at, place, length int) {
	size := min(slotSize, r.bytes-b*slotSize)
	per := (ceil(size, r.g.size) + 63) &^ 63
	from := min(q*per, size)
	to := min((q+1)*per, size)
	return b*slotSize + from, from, to - from
}

// piece returns a region's part of block b of a reduce-scatter: its offset in the vector,
// and its length, in bytes.
func (r *reduction) piece(region Region, b int) (at, length int) {
	return region.Off + b*r.per, max(0, min(r.per, region.Len-b*r.per))
}

// copyIn copies this rank's elements of the others' stripes into its slot, once no rank
// needs the slot's previous content.
func (r *reduction) copyIn(first uint32, b int) error {
	g := r.g
	n := first + uint32(b)
	if err := g.free(n); err != nil {
		return err
	}
	slot := g.slot(g.rank, n)
	if r.regions == nil {
		// All but this rank's stripe, which has parts before and behind it.
		size := min(slotSize, r.bytes-b*slotSize)
		_, from, length := r.stripe(g.rank, b)
		r.put(slot, 0, b*slotSize, from)
		r.put(slot, from+length, b*slotSize+from+length, size-from-length)
	}
	place := 0
	for q, region := range r.regions {
		if q != g.rank {
			at, length := r.piece(region, b)
			r.put(slot, place, at, length)
		}
		if region.Len > 0 {
			place += r.per
		}
	}
	g.put(n, r.sign)
	return nil
}

// put copies length bytes of the vector to their offset in a slot.
func (r *reduction) put(slot unsafe.Pointer, place, at, length int) {
	if length > 0 {
		r.g.write(r.stage, unsafe.Add(slot, place), unsafe.Add(r.src, at), length)
	}
}

// reduce combines this rank's stripe of all ranks, in rank order, into its slot
// and its result, as far as each is needed.
func (r *reduction) reduce(first uint32, b int) error {
	g := r.g
	n := first + uint32(b)
	at, place, length := r.mine(b)
	for q := range g.size {
		if err := g.hear(q, n, r.sign); err != nil {
			return err
		}
		g.srcs[q] = unsafe.Add(g.slot(q, n), place)
	}
	slot := g.srcs[g.rank]
	own := g.seg.controls[g.rank]
	switch {
	case r.root == nobody:
		r.combine(r.dst, b*r.per, at, length)
		own.done.set(n + 1)
	case r.root != everyone && r.root != g.rank:
		r.combine(slot, 0, at, length)
		own.out.set(n + 1)
		own.done.set(n + 1)
	case r.stage == pastCache:
		r.combine(r.dst, at, at, length)
		if length > 0 {
			g.kernels.CopyNT(slot, unsafe.Add(r.dst, at), length)
		}
		own.out.set(n + 1)
	default:
		r.combine(slot, 0, at, length)
		own.out.set(n + 1)
		g.result(r.stage, r.dst, at, slot, 0, length)
	}
	return nil
}

// mine returns this rank's part of block b.
func (r *reduction) mine(b int) (at, place, length int) {
	if r.regions == nil {
		return r.stripe(r.g.rank, b)
	}
	for _, region := range r.regions[:r.g.rank] {
		if region.Len > 0 {
			place += r.per
		}
	}
	at, length = r.piece(r.regions[r.g.rank], b)
	return at, place, length
}

// combine reduces the length bytes at g.srcs, of which this rank's are at at of its
// vector, to off of dst.
func (r *reduction) combine(dst unsafe.Pointer, off, at, length int) {
	if length == 0 {
		return
	}
	g := r.g
	g.srcs[g.rank] = unsafe.Add(r.src, at)
	g.combine(r.t, r.op, unsafe.Add(dst, off), length/r.t.Size(), r.divisor)
	g.srcs[g.rank] = nil // do not keep the caller's memory alive
}

// copyOut copies the others' stripes, if this rank gets them.
func (r *reduction) copyOut(first uint32, b int) error {
	g := r.g
	n := first + uint32(b)
	if r.root != everyone && r.root != g.rank {
		return nil
	}
	for i := 1; i < g.size; i++ {
		q := (g.rank + i) % g.size // spread the first reads over the slots
		if err := g.wait.until(&g.seg.controls[q].out, n+1, q); err != nil {
			return err
		}
		at, place, length := r.stripe(q, b)
		g.result(r.stage, r.dst, at, g.slot(q, n), place, length)
	}
	g.seg.controls[g.rank].done.set(n + 1)
	return nil
}
