package kernel

import (
	"math"
	"unsafe"
)

type float interface{ ~float32 | ~float64 }

type number interface {
	~int8 | ~uint8 | ~int16 | ~int32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// first reports whether Min takes a rather than b. Among integers and ordinary
// numbers that is a < b; see the package comment for the rest.
func first[T number](a, b T) bool {
	return a < b || a != a || a == b && a == 0 && math.Signbit(float64(a))
}

// last reports whether Max takes a rather than b.
func last[T number](a, b T) bool {
	return a > b || a != a || a == b && a == 0 && !math.Signbit(float64(a))
}

// nan returns the NaN that x86 vector instructions give for an operation on a and b. Go
// does not define which one an operation gives.
func nan[T number](a, b T) T {
	switch {
	case a != a:
		return quiet(a)
	case b != b:
		return quiet(b)
	}
	return invalid[T]()
}

// quiet sets the bit that tells a quiet NaN from a signalling one. T is floating
// point: no integer is NaN.
func quiet[T number](a T) T {
	if p := unsafe.Pointer(&a); unsafe.Sizeof(a) == 4 {
		*(*uint32)(p) |= 1 << 22
	} else {
		*(*uint64)(p) |= 1 << 51
	}
	return a
}

// invalid returns the NaN of an operation whose operands were numbers.
func invalid[T number]() (a T) {
	if p := unsafe.Pointer(&a); unsafe.Sizeof(a) == 4 {
		*(*uint32)(p) = 0xffc00000
	} else {
		*(*uint64)(p) = 0xfff8 << 48
	}
	return a
}
