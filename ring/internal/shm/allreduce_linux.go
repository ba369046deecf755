package shm

import (
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// reduction is one large allreduce, block by block. A block is at most a slot;
// it is cut into one stripe per rank. See the package comment for the steps.
type reduction struct {
	g              *Group
	sign           uint64
	t              kernel.DType
	op             kernel.Op
	dst, src       unsafe.Pointer
	count, divisor int
	stage          staging
}

// tuned runs the reduction with the staging that rank 0 has found to be faster.
// Ranks may for once see its word at different times: it changes no result.
func (r *reduction) tuned() error {
	bytes := r.count * r.t.Size()
	word := &r.g.seg.controls[0].stage[class(bytes)]
	r.stage = min(staging(word.Load()), pastCache)
	if r.g.rank > 0 {
		return r.run()
	}
	begun := time.Now()
	err := r.run()
	word.Store(uint32(r.g.tuners[class(bytes)].next(r.stage, float64(time.Since(begun))/float64(bytes))))
	return err
}

func (r *reduction) run() error {
	bytes := r.count * r.t.Size()
	first, blocks := r.g.advance(bytes), blocks(bytes)
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
	return r.copyOut(first, blocks-1)
}

// block is where block b lies in the vector, in bytes.
func (r *reduction) block(b int) (off, size int) {
	off = b * slotSize
	return off, min(slotSize, r.count*r.t.Size()-off)
}

// stripe is rank q's part of a block of size bytes, in whole cache lines.
func (r *reduction) stripe(q, size int) (from, to int) {
	per := ((size+r.g.size-1)/r.g.size + 63) &^ 63
	return min(q*per, size), min((q+1)*per, size)
}

// copyIn puts what the others reduce into this rank's slot, once nobody needs
// what was there before.
func (r *reduction) copyIn(first uint32, b int) error {
	g, n := r.g, first+uint32(b)
	if err := g.free(n); err != nil {
		return err
	}
	off, size := r.block(b)
	from, to := r.stripe(g.rank, size)
	slot, src := g.slot(g.rank, n), unsafe.Add(r.src, off)
	r.put(slot, src, 0, from)
	r.put(slot, src, to, size)
	g.put(n, r.sign)
	return nil
}

// reduce combines this rank's stripe of all ranks, in rank order, into its slot
// and its result.
func (r *reduction) reduce(first uint32, b int) error {
	g, n := r.g, first+uint32(b)
	off, size := r.block(b)
	from, to := r.stripe(g.rank, size)
	for q := range g.size {
		if err := g.hear(q, n, r.sign); err != nil {
			return err
		}
		g.srcs[q] = unsafe.Add(g.slot(q, n), from)
	}
	out, length := &g.seg.controls[g.rank].out, to-from
	if length == 0 {
		out.set(n + 1)
		return nil
	}
	slot, dst, src := unsafe.Add(g.slot(g.rank, n), from), unsafe.Add(r.dst, off+from), unsafe.Add(r.src, off+from)
	if r.stage == pastCache {
		r.combine(dst, src, length/r.t.Size())
		r.put(slot, dst, 0, length)
		out.set(n + 1)
		return nil
	}
	r.combine(slot, src, length/r.t.Size())
	out.set(n + 1)
	copyPart(dst, slot, 0, length)
	return nil
}

// put copies the bytes from..to of a block into a slot.
func (r *reduction) put(slot, src unsafe.Pointer, from, to int) {
	if from < to && r.stage == pastCache {
		r.g.kernels.CopyNT(unsafe.Add(slot, from), unsafe.Add(src, from), to-from)
		return
	}
	copyPart(slot, src, from, to)
}

// combine reduces count elements of all ranks, of which mine are this one's.
func (r *reduction) combine(result, mine unsafe.Pointer, count int) {
	g := r.g
	g.srcs[g.rank] = mine
	g.kernels.Reduce(r.t, r.op, result, g.srcs, count)
	if r.divisor > 1 {
		g.kernels.Divide(r.t, result, result, count, r.divisor)
	}
	g.srcs[g.rank] = nil // the caller's memory is not ours to keep
}

// copyPart copies the bytes from..to of a block. An empty part may lie past the
// end of the caller's memory, where no pointer may go.
func copyPart(dst, src unsafe.Pointer, from, to int) {
	if from < to {
		kernel.Copy(unsafe.Add(dst, from), unsafe.Add(src, from), to-from)
	}
}

// copyOut takes the others' stripes.
func (r *reduction) copyOut(first uint32, b int) error {
	g, n := r.g, first+uint32(b)
	off, size := r.block(b)
	for i := 1; i < g.size; i++ {
		q := (g.rank + i) % g.size // not all at the same rank's slot at once
		if err := g.wait.until(&g.seg.controls[q].out, n+1, q); err != nil {
			return err
		}
		from, to := r.stripe(q, size)
		copyPart(unsafe.Add(r.dst, off), g.slot(q, n), from, to)
	}
	g.seg.controls[g.rank].done.set(n + 1)
	return nil
}
