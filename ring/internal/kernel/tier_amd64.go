package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// runs reports whether this processor has what the tier needs. The bits of package cpu also say
// that the operating system saves the vector registers.
func (t tier) runs() bool {
	x := &cpu.X86
	switch t {
	case avx2:
		return x.HasAVX2 && x.HasF16C
	case avx512:
		return avx2.runs() && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2
	}
	return t == plain
}

// runAVX2 runs a kernel between two offsets and returns the offset it reached, which is from if
// there is no such kernel. X is the number of sources, of which src is the array, or the bits of
// the number to multiply or divide by.
//
//go:noescape
func runAVX2(number int, dst, src unsafe.Pointer, x uint64, from, to int) (done int)

// runAVX512 is runAVX2 with AVX-512.
//
//go:noescape
func runAVX512(number int, dst, src unsafe.Pointer, x uint64, from, to int) (done int)

func (t tier) runNumber(number int, dst, src unsafe.Pointer, x uint64, from, to int) int {
	switch t {
	case avx2:
		return runAVX2(number, dst, src, x, from, to)
	case avx512:
		return runAVX512(number, dst, src, x, from, to)
	}
	return from
}
