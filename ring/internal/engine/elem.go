package engine

import (
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Type is the type of an element.
type Type uint8

// The element types. Zero is the type of calls without data.
const (
	Float32  = Type(kernel.F32)
	Float64  = Type(kernel.F64)
	Float16  = Type(kernel.F16)
	BFloat16 = Type(kernel.BF16)
	Int8     = Type(kernel.I8)
	Uint8    = Type(kernel.U8)
	Int16    = Type(kernel.I16)
	Int32    = Type(kernel.I32)
	Int64    = Type(kernel.I64)
	Uint64   = Type(kernel.U64)
	Bool     = Type(kernel.Bool)
)

func (t Type) String() string {
	names := [...]string{"", "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
		"uint64", "bool"}
	if t == 0 || int(t) >= len(names) {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return names[t]
}

// Size returns the length of one element in bytes.
func (t Type) Size() int { return kernel.DType(t).Size() }

// memory returns n bytes, aligned for every type.
func memory(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// pointer returns the address of b's first byte.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// overlap reports whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first := uintptr(unsafe.Pointer(&a[0]))
	second := uintptr(unsafe.Pointer(&b[0]))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}
