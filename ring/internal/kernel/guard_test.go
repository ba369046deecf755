//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/lab"
)

// TestNothingOutside puts arrays directly before and after memory that kills the
// process when it is touched.
func TestNothingOutside(t *testing.T) {
	const sources = 3
	var memory [sources + 1][]byte
	for i := range memory {
		memory[i] = lab.Fenced(t, 8<<10)
	}
	r := rand.New(rand.NewPCG(1, 2))
	all := sets(t)
	for _, dtype := range types() {
		for i := range sources {
			fill(r, dtype, memory[i])
		}
		for n := range 200 {
			for _, atEnd := range []bool{false, true} {
				var p [sources + 1]unsafe.Pointer
				for i, m := range memory {
					p[i] = unsafe.Pointer(&m[0])
					if atEnd {
						p[i] = unsafe.Add(p[i], len(m)-n*dtype.Size())
					}
				}
				touchAll(all, dtype, p[sources], p[:sources], n)
			}
		}
	}
}

// touchAll runs every kernel of a type.
func touchAll(sets []Set, dtype Type, dst unsafe.Pointer, srcs []unsafe.Pointer, n int) {
	for _, set := range sets {
		for _, op := range ops() {
			if Valid(dtype, op) {
				set.Reduce(dtype, op, dst, srcs, n)
			}
		}
		if dtype != Bool {
			set.Scale(dtype, dst, srcs[0], n, 0.5)
			set.Divide(dtype, dst, srcs[0], n, 3)
		}
		set.CopyNT(dst, srcs[0], n*dtype.Size())
	}
}
