package ring

import (
	"fmt"
	"unsafe"
)

// Elem is what a buffer can be made of.
type Elem interface{ float32 | float64 }

// Type names an element type at run time.
type Type uint8

// The types of [Elem]. Zero is the type of calls without data.
const (
	Float32 Type = 1 + iota
	Float64
)

func (t Type) String() string {
	switch t {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// size is the length of one element in bytes.
func (t Type) size() int {
	if t == Float32 {
		return 4
	}
	return 8
}

func typeOf[T Elem]() Type {
	var zero T
	if unsafe.Sizeof(zero) == 4 {
		return Float32
	}
	return Float64
}

// bytesOf is s as the bytes in memory that hold it.
func bytesOf[T Elem](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// elemsOf is the opposite of bytesOf. The first byte must be aligned for T.
func elemsOf[T Elem](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// overlap reports whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first, second := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}
