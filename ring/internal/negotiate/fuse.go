package negotiate

import (
	"slices"

	"github.com/gorun/gorun/ring/internal/collective"
)

// Align is the alignment of tensors in a fusion buffer in bytes: a cache line, which is a
// whole number of elements of every type.
const Align = 64

// Item is one operation that all ranks that have not joined have submitted.
type Item struct {
	// Request is the same on all ranks: where counts vary, Count is their sum.
	Request
	Counts []uint64 // counts by rank of an allgather or alltoall
	Joined int      // number of ranks that take part without having submitted it
	Offset int64    // byte offset in the fusion buffer
}

// Batch runs as one operation: one item of any kind, or several allreduces of one type and
// op, whose tensors are in one buffer, each at its Offset.
type Batch struct {
	Items []Item
	// Bytes is the length of the fusion buffer: to the end of the last item. Between
	// items there are gaps of less than Align.
	Bytes int64
}

// fuser groups ready items into batches. Its slices are reused memory: results depend only
// on large and the arguments.
type fuser struct {
	large   int64 // bytes from which a tensor runs alone; 0: none does
	taken   []bool
	items   []Item
	batches []Batch
}

// fuse splits ready into batches, in order. A batch takes later allreduces of its type and
// op while the buffer stays within threshold bytes. Other items in between do not end it,
// so that alternating types fuse, unless they exceed threshold bytes in total and would
// wait for ever longer batches. That is the rule of Horovod's FuseResponses. The result is
// valid until the next call.
func (f *fuser) fuse(ready []Item, threshold int64) []Batch {
	f.taken = slices.Grow(f.taken[:0], len(ready))[:len(ready)]
	clear(f.taken)
	f.items = slices.Grow(f.items[:0], len(ready)) // batches are slices of it, so it must not move
	f.batches = f.batches[:0]
	for i := range ready {
		if f.taken[i] {
			continue
		}
		start := len(f.items)
		bytes := ready[i].Bytes()
		f.items = append(f.items, ready[i])
		if ready[i].Kind == collective.AllReduce && bytes <= threshold && !f.alone(bytes) {
			bytes = f.gather(ready, i, threshold)
		}
		f.batches = append(f.batches, Batch{Items: f.items[start:len(f.items):len(f.items)], Bytes: bytes})
	}
	return f.batches
}

// gather appends the items that share a buffer with ready[i], and returns its length.
func (f *fuser) gather(ready []Item, i int, threshold int64) int64 {
	end := ready[i].Bytes()
	skipped := int64(0)
	for j := i + 1; j < len(ready) && skipped < threshold; j++ {
		if f.taken[j] {
			continue
		}
		at := (end + Align - 1) &^ (Align - 1)
		bytes := ready[j].Bytes()
		if !fits(ready[i].Request, ready[j].Request) || at+bytes > threshold || f.alone(bytes) {
			skipped += bytes
			continue
		}
		f.taken[j] = true
		f.items = append(f.items, ready[j])
		f.items[len(f.items)-1].Offset = at
		end = at + bytes
	}
	return end
}

// alone reports whether a tensor of that many bytes is not worth copying.
func (f *fuser) alone(bytes int64) bool { return f.large > 0 && bytes >= f.large }

// fits reports whether a and b may be reduced as one vector.
func fits(a, b Request) bool {
	return b.Kind == collective.AllReduce && a.Type == b.Type && a.Op == b.Op && a.GPU == b.GPU
}
