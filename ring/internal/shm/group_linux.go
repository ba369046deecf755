package shm

import (
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Group is the ranks of one domain, numbered 0..L-1. It runs one call at a time;
// all ranks must make the same collectives in the same order, which the calls'
// signs check.
//
// Only the bytes of results come from other ranks unchecked: offsets and lengths are this
// rank's own, or checked before use.
type Group struct {
	rank, size int
	seg        *segment
	wait       waiter
	kernels    kernel.Set
	block      uint32 // blocks so far, over all collectives
	message    uint32 // small messages so far
	srcs       []unsafe.Pointer
	order      *kernel.Tree          // of reductions; nil: one source after the other
	tuners     [kinds][classes]tuner // rank 0's

	posted    []uint32       // blocks put in Swaps, by rank
	taken     []uint32       // blocks taken in Swaps, by rank
	boxed     uint32         // boxes used so far, over all Swaps
	lentBoxes [boxes]lentBox // receiver of each box that is not yet empty
}

// ReduceInRankOrder makes reductions combine in the order of a [kernel.Tree]. All ranks call it,
// before the first call.
func (g *Group) ReduceInRankOrder() { g.order = kernel.NewTree(g.kernels, kernel.Ranks(g.size)) }

// Close leaves the group and unmaps the memory. No call may be running.
func (g *Group) Close() error {
	g.seg.controls[g.rank].left.Store(1)
	return g.seg.close()
}

// Barrier returns when all ranks have called it.
func (g *Group) Barrier(sign uint64) error {
	g.begin(0)
	return g.exchange(sign)
}

// begin starts a small message from every rank, and returns the memory of this rank's.
// Bytes must be equal on all ranks, and at most cellSize.
func (g *Group) begin(bytes int) unsafe.Pointer {
	g.message++
	which := int(g.message % cells)
	for q := range g.size {
		g.srcs[q] = g.messageOf(q, which, bytes)
	}
	return g.srcs[g.rank]
}

// exchange publishes this rank's message and waits for the others', which are at g.srcs,
// by rank, until the next begin. A cell is written again two messages later: by then its
// readers have sent the message between, which they do after reading.
func (g *Group) exchange(sign uint64) error {
	which := int(g.message % cells)
	mine := &g.seg.controls[g.rank].cell[which]
	mine.sign = sign
	mine.set(g.message)
	for q := range g.size {
		if q == g.rank {
			continue
		}
		c := &g.seg.controls[q].cell[which]
		if err := g.wait.until(c, g.message, q); err != nil {
			return err
		}
		if c.sign != sign {
			return &SignError{Rank: q, Mine: sign, Theirs: c.sign}
		}
	}
	return nil
}

func (g *Group) messageOf(rank, which, bytes int) unsafe.Pointer {
	if bytes <= inline {
		return unsafe.Pointer(&g.seg.controls[rank].cell[which].data)
	}
	return unsafe.Add(g.seg.cells[rank], which*cellSize)
}

// advance numbers the blocks of a call.
func (g *Group) advance(blocks int) (first uint32) {
	first = g.block
	g.block += uint32(blocks)
	return first
}

// settle ends a call: it advances the counters of steps that this rank did not have. One
// left behind would seem ahead once the numbers have wrapped around.
func (g *Group) settle() {
	mine := g.seg.controls[g.rank]
	mine.in.set(g.block)
	mine.out.set(g.block)
	mine.done.set(g.block)
}

// put publishes that block n of a call is in this rank's slot.
func (g *Group) put(n uint32, sign uint64) {
	mine := g.seg.controls[g.rank]
	mine.signs[n%slots] = sign
	mine.in.set(n + 1)
}

// hear waits until block n is in rank q's slot, and checks that it belongs to this call.
func (g *Group) hear(q int, n uint32, sign uint64) error {
	if q == g.rank {
		return nil
	}
	control := g.seg.controls[q]
	if err := g.wait.until(&control.in, n+1, q); err != nil {
		return err
	}
	if theirs := control.signs[n%slots]; theirs != sign {
		return &SignError{Rank: q, Mine: sign, Theirs: theirs}
	}
	return nil
}

// free waits until no rank needs the content of this rank's slot for block n.
func (g *Group) free(n uint32) error {
	for q := range g.size {
		if q == g.rank {
			continue
		}
		if err := g.wait.until(&g.seg.controls[q].done, n+1-slots, q); err != nil {
			return err
		}
	}
	return nil
}

// slot returns the memory of block n in rank q's staging.
func (g *Group) slot(q int, n uint32) unsafe.Pointer {
	return unsafe.Add(g.seg.staging[q], int(n%slots)*slotSize)
}

// write copies n bytes into a slot.
func (g *Group) write(stage staging, slot, src unsafe.Pointer, n int) {
	if stage == pastCache {
		g.kernels.CopyNT(slot, src, n)
		return
	}
	kernel.Copy(slot, src, n)
}

// copyPart copies the n bytes at off of both arrays. None may lie past the end of
// the caller's memory, where no pointer may go.
func copyPart(dst unsafe.Pointer, dstOff int, src unsafe.Pointer, srcOff, n int) {
	if n > 0 {
		kernel.Copy(unsafe.Add(dst, dstOff), unsafe.Add(src, srcOff), n)
	}
}

// tuned runs a call of so many bytes with the staging that rank 0 measured as faster. Ranks
// may see rank 0's choice at different times, which changes no result.
func (g *Group) tuned(k kind, bytes int, run func(staging) error) error {
	class := class(bytes)
	word := &g.seg.controls[0].stage[k][class]
	stage := min(staging(word.Load()), pastCache)
	if g.rank > 0 {
		return run(stage)
	}
	begun := time.Now()
	err := run(stage)
	word.Store(uint32(g.tuners[k][class].next(stage, float64(time.Since(begun))/float64(bytes))))
	return err
}

// ceil returns n / size, rounded up.
func ceil(n, size int) int { return (n + size - 1) / size }
