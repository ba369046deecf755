package main

// #include "failure.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// typeOf converts the type numbers of ring.h.
func typeOf(dtype C.int32_t) (ring.Type, bool) {
	types := [...]ring.Type{
		C.RING_INT8:     ring.Int8,
		C.RING_UINT8:    ring.Uint8,
		C.RING_BOOL:     ring.Bool,
		C.RING_INT16:    ring.Int16,
		C.RING_FLOAT16:  ring.Float16,
		C.RING_BFLOAT16: ring.BFloat16,
		C.RING_INT32:    ring.Int32,
		C.RING_FLOAT32:  ring.Float32,
		C.RING_INT64:    ring.Int64,
		C.RING_UINT64:   ring.Uint64,
		C.RING_FLOAT64:  ring.Float64,
	}
	return entry(types[:], dtype)
}

// opOf converts the operation numbers of ring.h.
func opOf(op C.int32_t) (ring.Op, bool) {
	ops := [...]ring.Op{
		C.RING_SUM:  ring.Sum,
		C.RING_PROD: ring.Prod,
		C.RING_MAX:  ring.Max,
		C.RING_MIN:  ring.Min,
		C.RING_AVG:  ring.Avg,
		C.RING_BAND: ring.BAnd,
		C.RING_BOR:  ring.BOr,
		C.RING_BXOR: ring.BXor,
	}
	return entry(ops[:], op)
}

// entry is what a table has at a place: 0, and false, if nothing.
func entry[T ring.Type | ring.Op](table []T, at C.int32_t) (T, bool) {
	if at < 0 || int(at) >= len(table) {
		return 0, false
	}
	return table[at], table[at] != 0
}

// kindOf converts the kinds of ring.h, whose numbers are those of package ring.
func kindOf(kind C.int32_t) (ring.Kind, bool) {
	k := ring.Kind(kind)
	return k, kind >= C.RING_BARRIER && kind <= C.RING_MESSAGE
}

// collective converts a call among a number of ranks.
func collective(call *C.ring_call, ranks int) (ring.Collective, error) {
	if call == nil || call.size < C.sizeof_ring_call {
		return ring.Collective{}, invalid("a call without its size: set it to sizeof(ring_call), which is %d",
			C.sizeof_ring_call)
	}
	kind, ok := kindOf(call.kind)
	if !ok {
		return ring.Collective{}, invalid("there is no kind %d", call.kind)
	}
	w := ring.Collective{
		Kind: kind,
		Root: int(call.root),
		To:   int(call.to),
		From: int(call.from),
	}
	if kind == ring.KindBarrier {
		return w, nil
	}
	if w.Type, ok = typeOf(call.dtype); !ok {
		return ring.Collective{}, invalid("%v: there is no dtype %d", kind, call.dtype)
	}
	if w.Op, ok = opOf(call.op); !ok {
		return ring.Collective{}, invalid("%v: there is no op %d", kind, call.op)
	}
	var err error
	if w.Dst, err = buffer(kind, "dst", call.dst, call.dst_count, w.Type.Size()); err != nil {
		return ring.Collective{}, err
	}
	if w.Src, err = buffer(kind, "src", call.src, call.src_count, w.Type.Size()); err != nil {
		return ring.Collective{}, err
	}
	w.Counts = lengths(call.counts, ranks)
	w.Sends = lengths(call.sends, ranks)
	if call.shape != nil {
		w.Shape = C.GoString(call.shape)
	}
	return w, nil
}

// buffer converts memory of count elements.
func buffer(kind ring.Kind, name string, ptr unsafe.Pointer, count C.uint64_t, size int) (ring.Buffer, error) {
	const most = 1 << 47 // more than a process can have
	if uint64(count) > most/uint64(size) {
		return ring.Buffer{}, invalid("%v: %s has %d elements", kind, name, uint64(count))
	}
	if uintptr(ptr)+uintptr(count)*uintptr(size) < uintptr(ptr) {
		return ring.Buffer{}, invalid("%v: %s has %d elements, and ends beyond all memory", kind, name, uint64(count))
	}
	if ptr == nil && count > 0 {
		return ring.Buffer{}, invalid("%v: %s is NULL, and has %d elements", kind, name, uint64(count))
	}
	return ring.Buffer{Ptr: ptr, Len: int(count)}, nil
}

// lengths copies one length for each rank.
func lengths(list *C.int64_t, ranks int) []int {
	if list == nil {
		return nil
	}
	return slices.Clone(unsafe.Slice((*int)(unsafe.Pointer(list)), ranks))
}
