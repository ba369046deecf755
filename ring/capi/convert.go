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
	switch dtype {
	case C.RING_INT8:
		return ring.Int8, true
	case C.RING_UINT8:
		return ring.Uint8, true
	case C.RING_BOOL:
		return ring.Bool, true
	case C.RING_INT16:
		return ring.Int16, true
	case C.RING_FLOAT16:
		return ring.Float16, true
	case C.RING_BFLOAT16:
		return ring.BFloat16, true
	case C.RING_INT32:
		return ring.Int32, true
	case C.RING_FLOAT32:
		return ring.Float32, true
	case C.RING_INT64:
		return ring.Int64, true
	case C.RING_UINT64:
		return ring.Uint64, true
	case C.RING_FLOAT64:
		return ring.Float64, true
	}
	return 0, false
}

func opOf(op C.int32_t) (ring.Op, bool) {
	switch op {
	case C.RING_SUM:
		return ring.Sum, true
	case C.RING_PROD:
		return ring.Prod, true
	case C.RING_MAX:
		return ring.Max, true
	case C.RING_MIN:
		return ring.Min, true
	case C.RING_AVG:
		return ring.Avg, true
	case C.RING_BAND:
		return ring.BAnd, true
	case C.RING_BOR:
		return ring.BOr, true
	case C.RING_BXOR:
		return ring.BXor, true
	}
	return 0, false
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
