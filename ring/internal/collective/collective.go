package collective

import (
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Buffer is memory for Len elements. The zero Buffer is empty.
type Buffer struct {
	Ptr unsafe.Pointer
	Len int
}

// Bytes returns b as bytes, if its elements are of type t.
func (b Buffer) Bytes(t kernel.Type) []byte { return unsafe.Slice((*byte)(b.Ptr), b.Len*t.Size()) }

// Collective is one call with its memory. What a kind does not take stays zero.
type Collective struct {
	Kind Kind
	Type kernel.Type
	Op   kernel.Op
	Root int

	Dst, Src Buffer
	// Counts are the elements of each rank's part, where they are not all alike. All
	// ranks give the same, but for an alltoall: there they are what comes from each
	// rank, and Sends is what goes to each.
	Counts, Sends []int

	To, From int // partners of a message; -1 is no rank

	// Shape is what all ranks must say alike of a tensor in a Queue, besides its length, such as
	// "32x16": of an allgather or alltoall without the first dimension. It is compared and shown,
	// not used.
	Shape string
}

// Fills reports whether a call puts elements into Dst of a rank.
func (w *Collective) Fills(rank int) bool {
	return w.Kind != Reduce && w.Kind != Gather || w.Root == rank
}

// member is one rank of a communicator of size ranks.
type member struct{ rank, size int }

// Check validates w for rank of size ranks and sets call to its description for the other ranks,
// without its number and epoch. It touches no memory of w.
func Check(w *Collective, rank, size int, call *Call) error {
	c := member{rank, size}
	*call = Call{Kind: w.Kind, Type: w.Type}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("ring: %v: %s", w.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case w.Kind < Barrier || w.Kind > Message:
		return bad("no such collective")
	case w.Kind != Barrier && w.Type.Size() == 0:
		return bad("no such type as %v", w.Type)
	case w.Kind.Reduces() && !kernel.Valid(w.Type, w.Op):
		return bad("no %v of %v", w.Op, w.Type)
	case w.Kind.Rooted() && w.Kind != Message && (w.Root < 0 || w.Root >= c.size):
		return bad("root %d is not one of %d ranks", w.Root, c.size)
	}
	if w.Kind.Reduces() {
		call.Op = w.Op
	}
	if w.Kind.Rooted() && w.Kind != Message {
		call.Root = uint32(w.Root)
	}
	if err := c.measure(w, call); err != nil {
		return fmt.Errorf("ring: %v: %w", w.Kind, err)
	}
	return nil
}

// measure validates the lengths, and puts them into the call.
func (c member) measure(w *Collective, call *Call) error {
	call.Count = uint64(w.Dst.Len)
	switch w.Kind {
	case Barrier:
		call.Type = 0
		call.Count = 0
	case AllReduce:
		if w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return apart(w, w.Dst.Ptr == w.Src.Ptr)
	case Reduce:
		call.Count = uint64(w.Src.Len)
		if c.rank == w.Root && w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return apart(w, w.Dst.Ptr == w.Src.Ptr)
	case ReduceScatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, true)
	case AllGather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, true)
	case Gather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, c.rank == w.Root)
	case Scatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, c.rank == w.Root)
	case AllToAll:
		return c.measureAllToAll(w, call)
	case Message:
		return c.measureMessage(w, call)
	}
	return nil
}

// measureParts checks a vector of parts, one for each rank, against this rank's own
// part. A rank without the vector takes the lengths on trust.
func (c member) measureParts(w *Collective, call *Call, allName string, all Buffer, ownName string, own Buffer,
	have bool) error {
	want := own.Len
	total := own.Len * c.size
	call.Count = uint64(own.Len)
	if w.Counts != nil {
		if err := CheckCounts("counts", w.Counts, c.size); err != nil {
			return err
		}
		want = w.Counts[c.rank]
		total = Total(w.Counts)
		call.Count = uint64(total)
		call.Shape = shape(w.Counts)
	}
	switch {
	case own.Len != want:
		return fmt.Errorf("%s has %d elements, and counts say %d for rank %d", ownName, own.Len, want, c.rank)
	case have && all.Len != total && w.Counts == nil:
		return fmt.Errorf("%s has %d elements, want %d from each of %d ranks", allName, all.Len, own.Len, c.size)
	case have && all.Len != total:
		return fmt.Errorf("%s has %d elements, and counts add up to %d", allName, all.Len, total)
	case !have:
		return nil
	}
	at := own.Len * c.rank
	if w.Counts != nil {
		at = Total(w.Counts[:c.rank])
	}
	inPlace := own.Len == 0 || unsafe.Add(all.Ptr, at*w.Type.Size()) == own.Ptr
	if err := apart(w, inPlace); err != nil {
		return fmt.Errorf("%w, but is not the part of rank %d", err, c.rank)
	}
	return nil
}

// CheckCounts validates the elements of each rank's part.
func CheckCounts(name string, counts []int, size int) error {
	if len(counts) != size {
		return fmt.Errorf("%s for %d ranks, want %d", name, len(counts), size)
	}
	total := 0
	for rank, n := range counts {
		if n < 0 {
			return fmt.Errorf("%s: %d elements for rank %d", name, n, rank)
		}
		if total += n; total < 0 {
			return fmt.Errorf("%s add up to more than there can be", name)
		}
	}
	return nil
}

func (c member) measureAllToAll(w *Collective, call *Call) error {
	if w.Counts == nil && w.Sends == nil {
		call.Count = uint64(w.Src.Len / c.size)
		if w.Dst.Len != w.Src.Len || w.Src.Len%c.size != 0 {
			return fmt.Errorf("dst has %d elements and src %d, want the same multiple of %d ranks", w.Dst.Len,
				w.Src.Len, c.size)
		}
		return apart(w, false)
	}
	if err := CheckCounts("counts", w.Counts, c.size); err != nil {
		return err
	}
	if err := CheckCounts("sends", w.Sends, c.size); err != nil {
		return err
	}
	if w.Dst.Len != Total(w.Counts) || w.Src.Len != Total(w.Sends) {
		return fmt.Errorf("dst has %d elements and src %d, but counts add up to %d and sends to %d", w.Dst.Len,
			w.Src.Len, Total(w.Counts), Total(w.Sends))
	}
	if own := c.rank; w.Counts[own] != w.Sends[own] {
		return fmt.Errorf("rank %d sends %d elements to itself, but counts say that %d come", own, w.Sends[own],
			w.Counts[own])
	}
	// What goes from one rank to another only those two know, and they compare it.
	call.Count = 0
	call.Shape = 1
	return apart(w, false)
}

func (c member) measureMessage(w *Collective, call *Call) error {
	for _, rank := range []int{w.To, w.From} {
		if rank < -1 || rank >= c.size {
			return fmt.Errorf("rank %d is not one of %d", rank, c.size)
		}
	}
	if (w.To == c.rank) != (w.From == c.rank) {
		return fmt.Errorf("a message of rank %d to itself is sent and received in one call", c.rank)
	}
	if w.To == c.rank && w.Dst.Len != w.Src.Len {
		return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
	}
	return apart(w, w.To == c.rank && w.Dst.Ptr == w.Src.Ptr)
}

// apart returns an error if the buffers overlap without being in place.
func apart(w *Collective, inPlace bool) error {
	if !inPlace && overlap(w.Dst.Bytes(w.Type), w.Src.Bytes(w.Type)) {
		return fmt.Errorf("src overlaps dst")
	}
	return nil
}

// Total returns the sum of counts.
func Total(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// shape hashes counts to a number other than zero.
func shape(counts []int) uint64 {
	h := uint64(14695981039346656037) // FNV-1a, a word at a time
	for _, n := range counts {
		h = (h ^ uint64(n)) * 1099511628211
	}
	return h | 1
}

// overlap reports whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first := uintptr(unsafe.Pointer(&a[0]))
	second := uintptr(unsafe.Pointer(&b[0]))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}
