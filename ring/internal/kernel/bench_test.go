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

// BenchmarkCopy counts the bytes copied.
func BenchmarkCopy(b *testing.B) {
	dst, srcs := benchArrays(1, 64<<20)
	b.Run("cached", func(b *testing.B) {
		b.SetBytes(64 << 20)
		for b.Loop() {
			Copy(dst, srcs[0], 64<<20)
		}
	})
	for _, set := range sets(b)[1:] {
		b.Run(fmt.Sprintf("%v/nt", set), func(b *testing.B) {
			b.SetBytes(64 << 20)
			for b.Loop() {
				set.CopyNT(dst, srcs[0], 64<<20)
			}
		})
	}
}

// BenchmarkConvert counts the bytes of the float32 array.
func BenchmarkConvert(b *testing.B) {
	dst, srcs := benchArrays(1, 256<<10)
	for _, pair := range [][2]Type{{F32, F16}, {F16, F32}, {F32, BF16}, {BF16, F32}} {
		for _, set := range sets(b) {
			b.Run(fmt.Sprintf("%v/%v/%v", pair[1], pair[0], set), func(b *testing.B) {
				b.SetBytes(256 << 10)
				for b.Loop() {
					set.Convert(pair[0], dst, pair[1], srcs[0], 64<<10)
				}
			})
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
