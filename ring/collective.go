package ring

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/engine"
)

// Buffer is memory for Len elements. The zero Buffer is empty.
type Buffer struct {
	Ptr unsafe.Pointer
	Len int
}

// BufferOf returns s as a Buffer.
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

	// Shape is what all ranks must say alike of a tensor in a [Queue], besides its length, such as
	// "32x16": of an allgather or alltoall without the first dimension. It is compared and shown,
	// not used.
	Shape string
}

// engine is w as the engine takes it.
func (w *Collective) engine() engine.Collective {
	return engine.Collective{
		Kind:   engine.Kind(w.Kind),
		Type:   engine.Type(w.Type),
		Op:     engine.Op(w.Op),
		Root:   w.Root,
		Dst:    engine.Buffer(w.Dst),
		Src:    engine.Buffer(w.Src),
		Counts: w.Counts,
		Sends:  w.Sends,
		To:     w.To,
		From:   w.From,
	}
}

func sum(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
