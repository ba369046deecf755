package kernel

import "unsafe"

// runs reports whether this processor has what the tier needs. Go needs NEON itself.
func (t tier) runs() bool { return t <= neon }

// runNEON runs a kernel between two offsets and returns the offset it reached. That is from if
// there is no such kernel, and the offset of four vectors if there is a NaN among their results. X
// is the number of sources, of which src is the array, or the bits of the number to multiply or
// divide by.
//
//go:noescape
func runNEON(number int, dst, src unsafe.Pointer, x uint64, from, to int) (done int)

func (t tier) runNumber(number int, dst, src unsafe.Pointer, x uint64, from, to int) int {
	if t == neon {
		return runNEON(number, dst, src, x, from, to)
	}
	return from
}
