package ring

import (
	"fmt"
	"unsafe"
)

// Buffer is memory for Len elements. The zero Buffer is empty.
type Buffer struct {
	Ptr unsafe.Pointer
	Len int
}

// BufferOf is s as a Buffer.
func BufferOf[T Elem](s []T) Buffer {
	return Buffer{unsafe.Pointer(unsafe.SliceData(s)), len(s)}
}

func (b Buffer) bytes(t Type) []byte { return unsafe.Slice((*byte)(b.Ptr), b.Len*t.size()) }

// Collective is one call as data, for callers that know types and lengths only at run
// time: [Comm.Do] makes it. What each kind wants is said at the function of its name;
// what that does not take as an argument stays zero.
//
//	kind            Dst             Src             and
//	barrier
//	broadcast       n                               Root
//	allreduce       n               n               Op
//	reduce          n at the root   n               Op, Root
//	reduce-scatter  n               n of each rank  Op; Counts for unlike parts
//	allgather       n of each rank  n               Counts for unlike parts
//	gather          the same at the root            Root, Counts
//	scatter         n               n of each at the root  Root, Counts
//	alltoall        n of each rank  n for each rank Counts and Sends for unlike parts
//	message         from rank From  for rank To     To, From, or -1
type Collective struct {
	Kind Kind
	Type Type
	Op   Op
	Root int

	Dst, Src Buffer
	// Counts are the elements of each rank's part, where they are not all alike. All
	// ranks give the same, but for an alltoall: there they are what comes from each
	// rank, and Sends is what goes to each.
	Counts, Sends []int

	To, From int // of a message

	// Shape is what all ranks must say alike of a tensor in a [Queue], besides its length, such as "32x16": of an
	// allgather or alltoall without the first dimension. It is compared and shown, not used.
	Shape string
}

// check finds out whether the call makes sense here, and how it is described to the
// other ranks.
func (c *Comm) check(w *Collective) (Call, error) {
	call := Call{Epoch: uint64(c.place.Epoch), Kind: w.Kind, Type: w.Type}
	bad := func(format string, args ...any) (Call, error) {
		return Call{}, fmt.Errorf("ring: %v: %s", w.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case w.Kind < KindBarrier || w.Kind > KindMessage:
		return bad("no such collective")
	case w.Kind != KindBarrier && w.Type.size() == 0:
		return bad("no such type as %v", w.Type)
	case w.Kind.reduces() && !w.Op.valid(w.Type):
		return bad("no %v of %v", w.Op, w.Type)
	case w.Kind.rooted() && w.Kind != KindMessage && (w.Root < 0 || w.Root >= c.Size()):
		return bad("root %d is not one of %d ranks", w.Root, c.Size())
	}
	if w.Kind.reduces() {
		call.Op = w.Op
	}
	if w.Kind.rooted() && w.Kind != KindMessage {
		call.Root = uint32(w.Root)
	}
	if err := c.measure(w, &call); err != nil {
		return Call{}, fmt.Errorf("ring: %v: %w", w.Kind, err)
	}
	return call, nil
}

// measure checks the lengths, and puts them into the call.
func (c *Comm) measure(w *Collective, call *Call) error {
	call.Count = uint64(w.Dst.Len)
	switch w.Kind {
	case KindBarrier:
		call.Type, call.Count = 0, 0
	case KindAllReduce:
		if w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return w.apart(w.Dst.Ptr == w.Src.Ptr)
	case KindReduce:
		call.Count = uint64(w.Src.Len)
		if c.Rank() == w.Root && w.Dst.Len != w.Src.Len {
			return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
		}
		return w.apart(w.Dst.Ptr == w.Src.Ptr)
	case KindReduceScatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, true)
	case KindAllGather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, true)
	case KindGather:
		return c.measureParts(w, call, "dst", w.Dst, "src", w.Src, c.Rank() == w.Root)
	case KindScatter:
		return c.measureParts(w, call, "src", w.Src, "dst", w.Dst, c.Rank() == w.Root)
	case KindAllToAll:
		return c.measureAllToAll(w, call)
	case KindMessage:
		return c.measureMessage(w, call)
	}
	return nil
}

// measureParts checks a vector of parts, one for each rank, against this rank's own
// part. A rank without the vector takes the lengths on trust.
func (c *Comm) measureParts(w *Collective, call *Call, allName string, all Buffer, ownName string, own Buffer, have bool) error {
	want, total := own.Len, own.Len*c.Size()
	call.Count = uint64(own.Len)
	if w.Counts != nil {
		if err := c.measureCounts("counts", w.Counts); err != nil {
			return err
		}
		want, total = w.Counts[c.Rank()], sum(w.Counts)
		call.Count, call.Shape = uint64(total), shape(w.Counts)
	}
	switch {
	case own.Len != want:
		return fmt.Errorf("%s has %d elements, and counts say %d for rank %d", ownName, own.Len, want, c.Rank())
	case have && all.Len != total && w.Counts == nil:
		return fmt.Errorf("%s has %d elements, want %d from each of %d ranks", allName, all.Len, own.Len, c.Size())
	case have && all.Len != total:
		return fmt.Errorf("%s has %d elements, and counts add up to %d", allName, all.Len, total)
	case !have:
		return nil
	}
	at := own.Len * c.Rank()
	if w.Counts != nil {
		at = sum(w.Counts[:c.Rank()])
	}
	inPlace := own.Len == 0 || unsafe.Add(all.Ptr, at*w.Type.size()) == own.Ptr
	if err := w.apart(inPlace); err != nil {
		return fmt.Errorf("%w, but is not the part of rank %d", err, c.Rank())
	}
	return nil
}

func (c *Comm) measureCounts(name string, counts []int) error {
	if len(counts) != c.Size() {
		return fmt.Errorf("%s for %d ranks, want %d", name, len(counts), c.Size())
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

func (c *Comm) measureAllToAll(w *Collective, call *Call) error {
	if w.Counts == nil && w.Sends == nil {
		call.Count = uint64(w.Src.Len / c.Size())
		if w.Dst.Len != w.Src.Len || w.Src.Len%c.Size() != 0 {
			return fmt.Errorf("dst has %d elements and src %d, want the same multiple of %d ranks", w.Dst.Len, w.Src.Len, c.Size())
		}
		return w.apart(false)
	}
	if err := c.measureCounts("counts", w.Counts); err != nil {
		return err
	}
	if err := c.measureCounts("sends", w.Sends); err != nil {
		return err
	}
	if w.Dst.Len != sum(w.Counts) || w.Src.Len != sum(w.Sends) {
		return fmt.Errorf("dst has %d elements and src %d, but counts add up to %d and sends to %d", w.Dst.Len, w.Src.Len, sum(w.Counts), sum(w.Sends))
	}
	if own := c.Rank(); w.Counts[own] != w.Sends[own] {
		return fmt.Errorf("rank %d sends %d elements to itself, but counts say that %d come", own, w.Sends[own], w.Counts[own])
	}
	// What goes from one rank to another only those two know, and they compare it.
	call.Count, call.Shape = 0, 1
	return w.apart(false)
}

func (c *Comm) measureMessage(w *Collective, call *Call) error {
	for _, rank := range []int{w.To, w.From} {
		if rank < -1 || rank >= c.Size() {
			return fmt.Errorf("rank %d is not one of %d", rank, c.Size())
		}
	}
	if (w.To == c.Rank()) != (w.From == c.Rank()) {
		return fmt.Errorf("a message of rank %d to itself is sent and received in one call", c.Rank())
	}
	if w.To == c.Rank() && w.Dst.Len != w.Src.Len {
		return fmt.Errorf("dst has %d elements and src %d", w.Dst.Len, w.Src.Len)
	}
	return w.apart(w.To == c.Rank() && w.Dst.Ptr == w.Src.Ptr)
}

// apart makes sure that the buffers share no memory, except in place.
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

// shape is a number that stands for counts, and is not zero.
func shape(counts []int) uint64 {
	h := uint64(14695981039346656037) // FNV-1a, a word at a time
	for _, n := range counts {
		h = (h ^ uint64(n)) * 1099511628211
	}
	return h | 1
}
