package kernel

import (
	"fmt"
	"unsafe"
)

// tier identifies an implementation; of those that a processor has, a higher one is faster.
type tier uint8

const (
	plain tier = iota
	neon
	avx2
	avx512
)

func (t tier) String() string { return [...]string{"off", "neon", "avx2", "avx512"}[t] }

// Set is the kernels of one tier. The zero Set is
// plain Go.
type Set struct{ tier tier }

// Detect returns the best kernels that this processor and its operating system
// can run, but none after limit in the list "off" (plain Go), "neon", "avx2" and
// "avx512". So one limit serves hosts of both kinds. Empty is no limit.
func Detect(limit string) (Set, error) {
	for t := avx512; ; t-- {
		if limit == "" || limit == t.String() {
			return Set{t.best()}, nil
		}
		if t == plain {
			return Set{}, fmt.Errorf("no SIMD level %q: want off, neon, avx2 or avx512", limit)
		}
	}
}

// best returns the best tier that this machine can run, from t down.
func (t tier) best() tier {
	for !t.runs() {
		t--
	}
	return t
}

// String returns the word that limits Detect to this set.
func (s Set) String() string { return s.tier.String() }

// Work is cut into pieces, because the runtime cannot preempt a goroutine inside assembly.
const (
	maxPiece = 256 << 10 // bytes of the destination
	maxRead  = 1 << 20   // bytes of all sources together
	minPiece = 4 << 10
)

// Reduce sets the n elements of dst to op over the sources, in their order. There
// is at least one source. dst may be one or more of them, but must not overlap
// any partly. It panics if Valid(t, op) is false.
func (s Set) Reduce(t Type, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, n int) {
	if !Valid(t, op) {
		panic(fmt.Sprintf("kernel: no %v of %v", op, t))
	}
	total := n * t.Size()
	if len(srcs) == 1 {
		Copy(dst, srcs[0], total)
		return
	}
	op = canonical(t, op)
	piece := max(minPiece, min(maxPiece, maxRead/len(srcs)&^(minPiece-1)))
	for from := 0; from < total; {
		to := min(from+piece, total)
		done := s.tier.reduce(t, op, dst, srcs, from, to)
		from = s.tier.resume(t.Float(), done, to)
		reduceGo(t, op, dst, srcs, done, from)
	}
}

// nanPiece is the work in bytes that plain Go does at least where kernels find a NaN:
// arrays full of them take no longer than without kernels.
const nanPiece = 1 << 10

// resume returns where the kernels go on after plain Go has taken over at done. The NEON kernels
// stop before a NaN, for which it has the rules; the others only before the end.
func (t tier) resume(float bool, done, to int) int {
	if t == neon && float {
		return min(done+nanPiece, to)
	}
	return to
}

// Scale sets the n elements of dst to those of src times factor. dst may be src,
// but must not overlap it partly. F32, F16 and BF16 are multiplied by the float32
// nearest to factor. Integers are multiplied as float64, cut towards zero, and
// clamped to their type; NaN becomes 0. It panics for Bool.
func (s Set) Scale(t Type, dst, src unsafe.Pointer, n int, factor float64) {
	mustBeNumber(t)
	total := n * t.Size()
	if factor == 1 {
		Copy(dst, src, total)
		return
	}
	for from := 0; from < total; {
		to := min(from+maxPiece, total)
		done := s.tier.scale(t, dst, src, factor, from, to)
		from = s.tier.resume(t.Float(), done, to)
		scaleGo(t, dst, src, factor, done, from)
	}
}

// Divide sets the n elements of dst to those of src divided by divisor, which is
// at least 1. dst may be src, but must not overlap it partly. Floating point is
// rounded once, so the average of equal numbers is that number; integers are cut
// towards zero. It panics for Bool.
func (s Set) Divide(t Type, dst, src unsafe.Pointer, n, divisor int) {
	mustBeNumber(t)
	if divisor < 1 {
		panic(fmt.Sprintf("kernel: division by %d", divisor))
	}
	total := n * t.Size()
	if divisor == 1 {
		Copy(dst, src, total)
		return
	}
	for from := 0; from < total; {
		to := min(from+maxPiece, total)
		done := s.tier.divide(t, dst, src, divisor, from, to)
		from = s.tier.resume(t.Float(), done, to)
		divideGo(t, dst, src, divisor, done, from)
	}
}

func mustBeNumber(t Type) {
	if t == Bool || t.Size() == 0 {
		panic(fmt.Sprintf("kernel: %v is not a number", t))
	}
}

// Copy copies n bytes. The result is in the cache afterwards, as far as it fits.
// The arrays must not overlap partly.
func Copy(dst, src unsafe.Pointer, n int) {
	if dst == src {
		return
	}
	// The runtime's copy writes around the cache from 1 MiB up.
	for from := 0; from < n; from += maxPiece {
		part := min(maxPiece, n-from)
		copy(array[byte](dst, from, part), array[byte](src, from, part))
	}
}

// CopyNT copies n bytes past the cache: for results that are larger than it, or not read
// soon. Other threads see them after any later atomic store. The arrays
// must not overlap partly.
func (s Set) CopyNT(dst, src unsafe.Pointer, n int) {
	if dst == src {
		return
	}
	from := min(n, -int(uintptr(dst))&(ntAlign-1))
	Copy(dst, src, from)
	for from < n {
		to := min(from+maxPiece, n)
		done := s.tier.copyNT(dst, src, from, to)
		if done < to {
			Copy(unsafe.Add(dst, done), unsafe.Add(src, done), to-done)
		}
		from = to
	}
}

// CopyTwice copies n bytes to near, which is in the cache afterwards, and to far, past the
// cache. It reads them once. The arrays must not overlap, but far may be src.
func (s Set) CopyTwice(far, near, src unsafe.Pointer, n int) {
	if far == src {
		Copy(near, src, n)
		return
	}
	copyBoth := func(from, to int) {
		if from < to {
			Copy(unsafe.Add(near, from), unsafe.Add(src, from), to-from)
			Copy(unsafe.Add(far, from), unsafe.Add(src, from), to-from)
		}
	}
	from := min(n, -int(uintptr(far))&(ntAlign-1))
	copyBoth(0, from)
	for from < n {
		to := min(from+maxPiece, n)
		copyBoth(s.tier.copyTwice(far, near, src, from, to), to)
		from = to
	}
}

// ntAlign is the alignment in bytes that stores past the cache need.
const ntAlign = 64
