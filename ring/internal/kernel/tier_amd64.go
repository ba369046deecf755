package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// detect asks the processor. The bits of package cpu also say that the operating
// system saves the vector registers.
func detect() tier {
	const f16c = 1 << 29
	x := &cpu.X86
	_, _, features, _ := cpuid(1, 0)
	switch {
	case !x.HasAVX2 || features&f16c == 0:
		return plain
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL || !x.HasBMI2:
		return avx2
	}
	return avx512
}

// The methods of tier do what the methods of Set of the same name do, from one
// offset towards another, and return how far they came. The Go tier does the
// rest. Offsets are bytes, for convert elements.

func (t tier) reduce(dtype DType, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, from, to int) int {
	switch t {
	case avx2:
		return avx2Reduce(dtype, op, dst, &srcs[0], len(srcs), from, to)
	case avx512:
		return avx512Reduce(dtype, op, dst, &srcs[0], len(srcs), from, to)
	}
	return from
}

func (t tier) scale(dtype DType, dst, src unsafe.Pointer, factor float64, from, to int) int {
	switch t {
	case avx2:
		return avx2Mul(dtype, dst, src, factor, from, to)
	case avx512:
		return avx512Mul(dtype, dst, src, factor, from, to)
	}
	return from
}

func (t tier) divide(dtype DType, dst, src unsafe.Pointer, divisor int, from, to int) int {
	switch t {
	case avx2:
		return avx2Div(dtype, dst, src, float64(divisor), from, to)
	case avx512:
		return avx512Div(dtype, dst, src, float64(divisor), from, to)
	}
	return from
}

func (t tier) convert(dstType DType, dst unsafe.Pointer, srcType DType, src unsafe.Pointer, from, to int) int {
	switch t {
	case avx2:
		return avx2Convert(dstType, srcType, dst, src, from, to)
	case avx512:
		return avx512Convert(dstType, srcType, dst, src, from, to)
	}
	return from
}

func (t tier) copyNT(dst, src unsafe.Pointer, from, to int) int {
	switch t {
	case avx2:
		return avx2CopyNT(dst, src, from, to)
	case avx512:
		return avx512CopyNT(dst, src, from, to)
	}
	return from
}
