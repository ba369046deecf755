package kernel

import (
	"fmt"
	"testing"
	"unsafe"
)

// BenchmarkReduce counts the bytes of the sources.
func BenchmarkReduce(b *testing.B) {
	for _, bench := range []struct {
		dtype Type
		op    Op
		k     int
		sizes []int // of each array, in KiB
	}{
		{F32, Sum, 2, []int{32, 256, 4 << 10, 64 << 10}},
		{F32, Sum, 4, []int{32, 256, 4 << 10, 64 << 10}},
		{F32, Min, 2, []int{256}},
		{F16, Sum, 2, []int{32, 256}},
		{F16, Sum, 4, []int{256}},
		{BF16, Sum, 2, []int{32, 256}},
		{BF16, Sum, 4, []int{256}},
		{I8, Sum, 2, []int{256}},
		{U8, BOr, 2, []int{256}},
	} {
		for _, size := range bench.sizes {
			for _, set := range sets(b) {
				b.Run(fmt.Sprintf("%v/%v/k=%d/%dKiB/%v", bench.dtype, bench.op, bench.k, size, set),
					func(b *testing.B) {
						dst, srcs := benchArrays(bench.k, size<<10)
						b.SetBytes(int64(bench.k * size << 10))
						for b.Loop() {
							set.Reduce(bench.dtype, bench.op, dst, srcs, size<<10/bench.dtype.Size())
						}
					})
			}
		}
	}
}

// benchArrays returns aligned arrays of ones (F32), each at another offset in its page.
func benchArrays(k, bytes int) (dst unsafe.Pointer, srcs []unsafe.Pointer) {
	a := newArrays(k+1, bytes, func(int) int { return 0 })
	for i := range k + 1 {
		for j := 0; j < bytes; j += 4 {
			put(F32, a.array(i), j/4, 0x3f800000)
		}
	}
	return a.pointer(k), a.pointers(k)
}
