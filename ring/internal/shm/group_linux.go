package shm

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Group is the ranks of one host. It runs one collective at a time; all ranks
// must make the same calls in the same order, which the calls' signs check.
type Group struct {
	rank, size int
	seg        *segment
	wait       waiter
	kernels    kernel.Set
	block      uint32 // blocks so far, over all calls
	message    uint32 // small messages so far
	srcs       []unsafe.Pointer
	tuners     [classes]tuner // rank 0's
}

// ErrBroken says that the job ended while a rank waited.
var ErrBroken = errors.New("the job is over")

// GoneError says that another rank has ended, or closed the group, and is waited
// for in vain.
type GoneError struct{ Rank int }

func (e *GoneError) Error() string { return fmt.Sprintf("rank %d is gone", e.Rank) }

// SignError says that another rank makes another call.
type SignError struct {
	Rank         int
	Mine, Theirs uint64
}

func (e *SignError) Error() string {
	return fmt.Sprintf("rank %d makes another call (%x, here %x)", e.Rank, e.Theirs, e.Mine)
}

// Exchange is how ranks learn of each other before they share memory: each
// brings a value and gets those of all, by local rank.
type Exchange func(name string, value []byte) ([][]byte, error)

// Join makes the group of size ranks, this one being rank. It returns nil, and
// no error, when the ranks do not share memory. broken ends every wait.
func Join(rank, size int, exchange Exchange, kernels kernel.Set, broken *atomic.Bool) (*Group, error) {
	seg, err := share(rank, size, exchange)
	if seg == nil || err != nil {
		return nil, err
	}
	seg.controls[rank].pid.Store(int32(os.Getpid()))
	// Before this is over a rank may look for another's process.
	if _, err := exchange("ready", nil); err != nil {
		_ = seg.close()
		return nil, err
	}
	return &Group{rank: rank, size: size, seg: seg, kernels: kernels, srcs: make([]unsafe.Pointer, size),
		wait: waiter{spin: size <= ownCores(), broken: broken, controls: seg.controls}}, nil
}

// share lets rank 0 make the memory and the others find it. All or none have it.
func share(rank, size int, exchange Exchange) (*segment, error) {
	var seg *segment
	var text []byte
	if rank == 0 {
		made, file, offer, err := create(size)
		if err == nil {
			defer file.Close()
			seg, text = made, offer
		}
	}
	offers, err := exchange("offer", text)
	if err != nil {
		return nil, err
	}
	if rank > 0 && len(offers[0]) > 0 {
		seg, _ = open(offers[0], size) // not to be had: the others learn of it next
	}
	have := []byte{0}
	if seg != nil {
		have[0] = 1
	}
	all, err := exchange("have", have)
	for _, h := range all {
		if err == nil && len(h) == 1 && h[0] == 1 {
			continue
		}
		if seg != nil {
			_ = seg.close()
		}
		return nil, err
	}
	return seg, err
}

// Close leaves the group and gives the memory back. No call may be running.
func (g *Group) Close() error {
	g.seg.controls[g.rank].left.Store(1)
	return g.seg.close()
}

// AllReduce sets the count elements of dst to op over the src of all ranks, in
// rank order, times 1/divisor. dst may be src. sign must be equal on all ranks.
func (g *Group) AllReduce(sign uint64, t kernel.DType, op kernel.Op, dst, src unsafe.Pointer, count, divisor int) error {
	if bytes := count * t.Size(); bytes <= cellSize {
		return g.exchange(sign, src, bytes, func(srcs []unsafe.Pointer) {
			g.kernels.Reduce(t, op, dst, srcs, count)
			if divisor > 1 {
				g.kernels.Divide(t, dst, dst, count, divisor)
			}
		})
	}
	r := reduction{g: g, sign: sign, t: t, op: op, dst: dst, src: src, count: count, divisor: divisor}
	return r.tuned()
}

// Barrier returns when all ranks have called it.
func (g *Group) Barrier(sign uint64) error {
	return g.exchange(sign, nil, 0, func([]unsafe.Pointer) {})
}

// exchange shows bytes to all ranks and calls use with those of all, by rank.
// One round: every rank writes its cell, then reads all. A cell is written again two
// messages later; by then its readers have sent the message between, which
// they do after reading.
func (g *Group) exchange(sign uint64, src unsafe.Pointer, bytes int, use func(srcs []unsafe.Pointer)) error {
	g.message++
	which := int(g.message % cells)
	for q := range g.size {
		g.srcs[q] = g.messageOf(q, which, bytes)
	}
	mine := &g.seg.controls[g.rank].cell[which]
	kernel.Copy(g.srcs[g.rank], src, bytes)
	mine.sign = sign
	mine.set(g.message)
	g.srcs[g.rank] = src
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
	use(g.srcs)
	g.srcs[g.rank] = nil // the caller's memory is not ours to keep
	return nil
}

func (g *Group) messageOf(rank, which, bytes int) unsafe.Pointer {
	if bytes <= inline {
		return unsafe.Pointer(&g.seg.controls[rank].cell[which].data)
	}
	return unsafe.Add(g.seg.cells[rank], which*cellSize)
}

// put shows the others that block n of a call is in this rank's slot.
func (g *Group) put(n uint32, sign uint64) {
	mine := g.seg.controls[g.rank]
	mine.signs[n%slots] = sign
	mine.in.set(n + 1)
}

// hear waits until block n is in rank q's slot, and checks that it is of the same
// call.
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

// free waits until nobody needs what is in this rank's slot for block n.
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

// slot is where block n stands in rank q's staging.
func (g *Group) slot(q int, n uint32) unsafe.Pointer {
	return unsafe.Add(g.seg.staging[q], int(n%slots)*slotSize)
}
