//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"

	"golang.org/x/sys/unix"
)

// fenced returns two pages of memory between two inaccessible ones.
func fenced(t *testing.T) []byte {
	page := unix.Getpagesize()
	all, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must.OK(t, err)
	t.Cleanup(func() { check.OK(t, unix.Munmap(all)) })
	for _, fence := range [][]byte{all[:page], all[3*page:]} {
		must.OK(t, unix.Mprotect(fence, unix.PROT_NONE))
	}
	return all[page : 3*page]
}

// TestNothingOutside puts arrays directly before and after memory that kills the
// process when it is touched.
func TestNothingOutside(t *testing.T) {
	const sources = 3
	var memory [sources + 1][]byte
	for i := range memory {
		memory[i] = fenced(t)
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
	testConvertFenced(all, memory[0], memory[1])
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

func testConvertFenced(sets []Set, from, to []byte) {
	for _, half := range []Type{F16, BF16} {
		for _, pair := range [][2]Type{{F32, half}, {half, F32}} {
			for n := range 200 {
				for _, set := range sets {
					dst := to[len(to)-n*pair[0].Size():]
					src := from[len(from)-n*pair[1].Size():]
					set.Convert(pair[0], unsafe.Pointer(unsafe.SliceData(dst)), pair[1],
						unsafe.Pointer(unsafe.SliceData(src)), n)
				}
			}
		}
	}
}
