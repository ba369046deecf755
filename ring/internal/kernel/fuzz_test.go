package kernel

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"
)

// FuzzTiersAgree compares every kernel of every tier with plain Go on arrays of any bytes.
func FuzzTiersAgree(f *testing.F) {
	f.Add(uint8(2), 0.5, 3,
		[]byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"))
	// NaNs of both kinds, and an infinity
	f.Add(uint8(3), -1., 1, bytes.Repeat([]byte{0, 0, 0xc0, 0x7f, 1, 0, 0xa0, 0x7f, 0, 0, 0x80, 0xff}, 40))
	f.Fuzz(func(t *testing.T, sources uint8, factor float64, divisor int, data []byte) {
		k := int(sources)%5 + 2
		length := len(data) / k &^ 7
		if length == 0 || length > 1<<12 {
			return
		}
		var srcs []unsafe.Pointer
		for i := range k {
			srcs = append(srcs, unsafe.Pointer(&data[i*length]))
		}
		each := func(what string, result int, run func(set Set, dst unsafe.Pointer)) {
			t.Helper()
			var want []byte
			for _, set := range sets(t) {
				got := make([]byte, result)
				if run(set, unsafe.Pointer(&got[0])); set.tier == plain {
					want = got
				}
				same(t, fmt.Sprintf("%v: %s of %d sources", set, what, k), got, want)
			}
		}
		for _, dtype := range types() {
			n := length / dtype.Size()
			for _, op := range ops() {
				if Valid(dtype, op) {
					each(fmt.Sprintf("%v of %v", op, dtype), length, func(set Set, dst unsafe.Pointer) {
						set.Reduce(dtype, op, dst, srcs, n)
					})
				}
			}
			if dtype != Bool {
				each("scale of "+dtype.String(), length, func(set Set, dst unsafe.Pointer) {
					set.Scale(dtype, dst, srcs[0], n, factor)
				})
				each("divide of "+dtype.String(), length, func(set Set, dst unsafe.Pointer) {
					set.Divide(dtype, dst, srcs[0], n, max(1, divisor))
				})
			}
		}
	})
}
