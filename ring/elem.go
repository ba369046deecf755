package ring

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// F16 is an IEEE 754 half-precision number, as its bits.
type F16 uint16

// BF16 is a bfloat16 number, as its bits: the upper half of a float32.
type BF16 uint16

// Elem is the type of an element. Sums of F16 and BF16 are computed in float32.
type Elem interface {
	float32 | float64 | F16 | BF16 | int8 | uint8 | int16 | int32 | int64 | uint64 | bool
}

// Type is an element type at run time.
type Type = kernel.Type

// The types of [Elem]. Zero is the type of calls without data.
const (
	Float32  = kernel.F32
	Float64  = kernel.F64
	Float16  = kernel.F16
	BFloat16 = kernel.BF16
	Int8     = kernel.I8
	Uint8    = kernel.U8
	Int16    = kernel.I16
	Int32    = kernel.I32
	Int64    = kernel.I64
	Uint64   = kernel.U64
	Bool     = kernel.Bool
)

func typeOf[T Elem]() Type {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case F16:
		return Float16
	case BF16:
		return BFloat16
	case int8:
		return Int8
	case uint8:
		return Uint8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint64:
		return Uint64
	}
	return Bool
}

// bytesOf returns the memory of s as bytes.
func bytesOf[T Elem](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
