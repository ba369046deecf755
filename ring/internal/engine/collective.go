package engine

import (
	"fmt"
	"unsafe"
)

// Buffer is memory for Len elements. The zero Buffer is empty.
type Buffer struct {
	Ptr unsafe.Pointer
	Len int
}

func (b Buffer) bytes(t Type) []byte { return unsafe.Slice((*byte)(b.Ptr), b.Len*t.Size()) }

// Collective is one call with its memory. What a kind does not take stays zero. Counts and
// Sends are the elements of each rank's part where parts differ; nil means equal parts.
type Collective struct {
	Kind          Kind
	Type          Type
	Op            Op
	Root          int
	Dst, Src      Buffer
	Counts, Sends []int
	To, From      int // of a message; -1 is no rank
}

// member is one rank of a communicator of size ranks.
type member struct{ rank, size int }

// Check validates w for rank of size ranks and sets call to its description for the other ranks,
// without its number and epoch. It touches no memory of w.
func (w *Collective) Check(rank, size int, call *Call) error {
	c := member{rank, size}
	*call = Call{Kind: w.Kind, Type: w.Type}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("ring: %v: %s", w.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case w.Kind < KindBarrier || w.Kind > KindMessage:
		return bad("no such collective")
	case w.Kind != KindBarrier && w.Type.Size() == 0:
		return bad("no such type as %v", w.Type)
	case w.Kind.Reduces() && !w.Op.Valid(w.Type):
		return bad("no %v of %v", w.Op, w.Type)
	case w.Kind.rooted() && w.Kind != KindMessage && (w.Root < 0 || w.Root >= c.size):
		return bad("root %d is not one of %d ranks", w.Root, c.size)
	}
	if w.Kind.Reduces() {
		call.Op = w.Op
	}
	if w.Kind.rooted() && w.Kind != KindMessage {
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
	case KindBarrier:
		call.Type = 0
		call.Count = 0
	case KindAllReduce:
		if w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return w.apart(w.Dst.Ptr == w.Src.Ptr)
	case KindReduce:
		call.Count = uint64(w.Src.Len)
		if c.rank == w.Root && w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return w.apart(w.Dst.Ptr == w.Src.Ptr)
	case KindReduceScatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, true)
	case KindAllGather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, true)
	case KindGather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, c.rank == w.Root)
	case KindScatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, c.rank == w.Root)
	case KindAllToAll:
		return c.measureAllToAll(w, call)
	case KindMessage:
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
		total = sum(w.Counts)
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
		at = sum(w.Counts[:c.rank])
	}
	inPlace := own.Len == 0 || unsafe.Add(all.Ptr, at*w.Type.Size()) == own.Ptr
	if err := w.apart(inPlace); err != nil {
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
		return w.apart(false)
	}
	if err := CheckCounts("counts", w.Counts, c.size); err != nil {
		return err
	}
	if err := CheckCounts("sends", w.Sends, c.size); err != nil {
		return err
	}
	if w.Dst.Len != sum(w.Counts) || w.Src.Len != sum(w.Sends) {
		return fmt.Errorf("dst has %d elements and src %d, but counts add up to %d and sends to %d", w.Dst.Len,
			w.Src.Len, sum(w.Counts), sum(w.Sends))
	}
	if own := c.rank; w.Counts[own] != w.Sends[own] {
		return fmt.Errorf("rank %d sends %d elements to itself, but counts say that %d come", own, w.Sends[own],
			w.Counts[own])
	}
	// What goes from one rank to another only those two know, and they compare it.
	call.Count = 0
	call.Shape = 1
	return w.apart(false)
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
	return w.apart(w.To == c.rank && w.Dst.Ptr == w.Src.Ptr)
}

// apart returns an error if the buffers overlap without being in place.
func (w *Collective) apart(inPlace bool) error {
	if !inPlace && overlap(w.Dst.bytes(w.Type), w.Src.bytes(w.Type)) {
		return fmt.Errorf("src overlaps dst")
	}
	return nil
}

func sum(counts []int) int {
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
