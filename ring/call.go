package ring

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/collective"
)

// Kind is the kind of a collective.
type Kind = collective.Kind

// The collectives. KindMessage is what [Send], [Recv] and [SendRecv] make.
const (
	KindBarrier       = collective.Barrier
	KindBroadcast     = collective.Broadcast
	KindAllGather     = collective.AllGather
	KindAllReduce     = collective.AllReduce
	KindReduce        = collective.Reduce
	KindReduceScatter = collective.ReduceScatter
	KindGather        = collective.Gather
	KindScatter       = collective.Scatter
	KindAllToAll      = collective.AllToAll
	KindMessage       = collective.Message
)

// Call describes one call, as ranks compare it: its number, epoch, kind, element type, operation,
// root and length. All ranks must make equal calls.
type Call = collective.Call

// Buffer is memory for Len elements. The zero Buffer is empty.
type Buffer = collective.Buffer

// BufferOf returns s as a Buffer.
func BufferOf[T Elem](s []T) Buffer {
	return Buffer{Ptr: unsafe.Pointer(unsafe.SliceData(s)), Len: len(s)}
}

// with returns w on the elements of dst and src.
func with[T Elem](w Collective, dst, src []T) Collective {
	w.Type = typeOf[T]()
	w.Dst = BufferOf(dst)
	w.Src = BufferOf(src)
	return w
}

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
type Collective = collective.Collective
