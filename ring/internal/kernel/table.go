//go:build amd64 || arm64

package kernel

import (
	"math"
	"unsafe"
)

// Operations of the assembly in addition to those of Reduce.
const (
	opScale  = BXor + 1 + iota // Scale
	opDivide                   // Divide
	opStream                   // CopyNT
	opTwice                    // CopyTwice
)

// A kernel's number is its type's times typeStride plus its operation's.
const (
	typeStride = 16
	kernels    = (int(Bool) + 1) * typeStride
)

func (t tier) run(op Op, dtype Type, dst, src unsafe.Pointer, x uint64, from, to int) int {
	return t.runNumber(int(dtype)*typeStride+int(op), dst, src, x, from, to)
}

// The methods of tier do what the methods of Set of the same name do, from one offset towards
// another, and return the offset they reached. The Go tier does the rest. Offsets are bytes.

func (t tier) reduce(dtype Type, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, from, to int) int {
	return t.run(op, alike(dtype, op), dst, unsafe.Pointer(&srcs[0]), uint64(len(srcs)), from, to)
}

// alike returns the type whose kernel serves t: the sign of integers does not matter to sums and
// products, nor the type to operations on bits.
func alike(t Type, op Op) Type {
	switch {
	case op.bitwise():
		return I8
	case op != Sum && op != Prod:
	case t == U8:
		return I8
	case t == U64:
		return I64
	}
	return t
}

func (t tier) scale(dtype Type, dst, src unsafe.Pointer, factor float64, from, to int) int {
	return t.run(opScale, dtype, dst, src, bitsOf(dtype, factor), from, to)
}

func (t tier) divide(dtype Type, dst, src unsafe.Pointer, divisor int, from, to int) int {
	return t.run(opDivide, dtype, dst, src, bitsOf(dtype, float64(divisor)), from, to)
}

// bitsOf returns the bits of x in the type in which dtype is computed.
func bitsOf(dtype Type, x float64) uint64 {
	if dtype == F64 {
		return math.Float64bits(x)
	}
	return uint64(math.Float32bits(float32(x)))
}

func (t tier) copyNT(dst, src unsafe.Pointer, from, to int) int {
	return t.run(opStream, 0, dst, src, 0, from, to)
}

func (t tier) copyTwice(far, near, src unsafe.Pointer, from, to int) int {
	ends := [2]unsafe.Pointer{src, near}
	return t.run(opTwice, 0, far, unsafe.Pointer(&ends), 0, from, to)
}
