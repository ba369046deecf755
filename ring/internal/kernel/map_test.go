package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
)

// mapped returns Scale or Divide of one element.
func mapped(t Type, bits uint64, factor float64, divisor int) uint64 {
	f, float := formatOf(t)
	if !float {
		return mappedInt(t, bits, factor, divisor)
	}
	single := format{32, 23}
	if !t.half() {
		single = f
	} else {
		bits = single.convert(f, bits)
	}
	if divisor > 0 {
		bits = single.quotient(bits, float64(divisor))
	} else {
		by := single.quiet(single.infinite()) | uint64(0x1p52-1)&math.Float64bits(factor)>>(52-single.fraction)
		if factor == factor {
			by = single.round(factor)
		}
		bits = single.arithmetic(Prod, bits, by)
	}
	if t.half() {
		return f.convert(single, bits)
	}
	return bits
}

// quotient divides by a positive number.
func (f format) quotient(a uint64, b float64) uint64 {
	if f.isNaN(a) {
		return f.quiet(a)
	}
	return f.round(f.value(a) / f.value(f.round(b)))
}

func mappedInt(t Type, bits uint64, factor float64, divisor int) uint64 {
	shift := 64 - 8*t.Size()
	signed := int64(bits<<shift) >> shift
	unsigned := t == U8 || t == U64
	value := float64(signed)
	low := -math.Ldexp(1, 63-shift)
	high := math.Ldexp(1, 63-shift)
	if unsigned {
		value = float64(bits)
		low = 0
		high = math.Ldexp(1, 64-shift)
	}
	if divisor > 0 && unsigned {
		return bits / uint64(divisor)
	}
	if divisor > 0 {
		return uint64(signed/int64(divisor)) << shift >> shift
	}
	v := math.Trunc(value * factor)
	switch {
	case v != v:
		return 0
	case v >= high:
		if unsigned {
			return math.MaxUint64 >> shift
		}
		return math.MaxInt64 >> shift
	case v <= low:
		return uint64(int64(low)) << shift >> shift
	case unsigned:
		return uint64(v)
	}
	return uint64(int64(v)) << shift >> shift
}

func TestScaleAndDivide(t *testing.T) {
	factors := []float64{0.5, 1. / 3, -2.75, 0, 1e300, 1e-40, 1e9, math.Inf(1), math.Inf(-1), math.NaN()}
	divisors := []int{2, 3, 7, 200, 70000, 1 << 40}
	for _, dtype := range types()[:10] {
		t.Run(dtype.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(dtype), 3))
			for n := range 131 {
				a := newArrays(2, n*dtype.Size(), func(array int) int { return n + array*13 })
				fillNumbers(r, dtype, a.array(0))
				testMap(t, dtype, a, n, factors[n%len(factors)], 0)
				testMap(t, dtype, a, n, 0, divisors[n%len(divisors)])
				fill(r, dtype, a.array(0))
				testMap(t, dtype, a, n, factors[n%len(factors)], 0)
				testMap(t, dtype, a, n, 0, divisors[n%len(divisors)])
			}
		})
	}
}

// testMap scales, or divides if the divisor is positive, and compares.
func testMap(t *testing.T, dtype Type, a arrays, n int, factor float64, divisor int) {
	want := make([]byte, n*dtype.Size())
	for i := range n {
		put(dtype, want, i, mapped(dtype, get(dtype, a.array(0), i), factor, divisor))
	}
	before := bytes.Clone(a.memory)
	for _, set := range sets(t) {
		for dst := range 2 {
			copy(a.memory, before)
			if divisor > 0 {
				set.Divide(dtype, a.pointer(dst), a.pointer(0), n, divisor)
			} else {
				set.Scale(dtype, a.pointer(dst), a.pointer(0), n, factor)
			}
			expected := bytes.Clone(before)
			copy(expected[a.at[dst]:], want)
			same(t, fmt.Sprintf("%v, %d elements, times %v or by %d", set, n, factor, divisor), a.memory, expected)
		}
	}
	copy(a.memory, before)
}

// The average of equal numbers is that number, which multiplication by the inverse misses.
func TestAverageOfEqualNumbers(t *testing.T) {
	for _, set := range sets(t) {
		for ranks := 1; ranks <= 64; ranks++ {
			x := float64(49 * ranks)
			i := int32(49 * ranks)
			set.Divide(F64, unsafe.Pointer(&x), unsafe.Pointer(&x), 1, ranks)
			set.Divide(I32, unsafe.Pointer(&i), unsafe.Pointer(&i), 1, ranks)
			check.That(t, x == 49 && i == 49, "%v: average of %d times 49 is %v and %d", set, ranks, x, i)
		}
	}
}

// TestHalfPairs combines every pattern with a sample of others.
func TestHalfPairs(t *testing.T) {
	for _, dtype := range []Type{F16, BF16} {
		r := rand.New(rand.NewPCG(uint64(dtype), 9))
		const n = 1 << 16
		a := newArrays(3, n*2, func(int) int { return 0 })
		for _, op := range []Op{Sum, Prod, Min, Max} {
			for h := range n {
				put(dtype, a.array(0), h, uint64(h))
				put(dtype, a.array(1), h, random(r, dtype))
			}
			testReduce(t, sets(t), dtype, op, a, 2, n)
		}
	}
}

func TestCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	lengths := []int{4095, 4096, 100_000, maxPiece - 1, maxPiece, 2*maxPiece + 77}
	for n := range 600 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		a := newArrays(3, n, func(array int) int { return n*7 + array*29 })
		fill(r, U8, a.array(0))
		before := bytes.Clone(a.memory)
		expected := bytes.Clone(a.memory)
		copy(expected[a.at[1]:], a.array(0))
		both := bytes.Clone(expected)
		copy(both[a.at[2]:], a.array(0))
		Copy(a.pointer(1), a.pointer(0), n)
		same(t, fmt.Sprintf("Copy of %d bytes", n), a.memory, expected)
		for _, set := range sets(t) {
			copy(a.memory, before)
			set.CopyNT(a.pointer(1), a.pointer(0), n)
			set.CopyNT(a.pointer(1), a.pointer(1), n)
			same(t, fmt.Sprintf("%v: CopyNT of %d bytes", set, n), a.memory, expected)
			copy(a.memory, before)
			set.CopyTwice(a.pointer(1), a.pointer(2), a.pointer(0), n)
			set.CopyTwice(a.pointer(0), a.pointer(2), a.pointer(0), n)
			same(t, fmt.Sprintf("%v: CopyTwice of %d bytes", set, n), a.memory, both)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var a, b, c [1000]float32
	pa := unsafe.Pointer(&a)
	pb := unsafe.Pointer(&b)
	pc := unsafe.Pointer(&c)
	for _, set := range sets(t) {
		allocs := testing.AllocsPerRun(20, func() {
			srcs := [...]unsafe.Pointer{pa, pb}
			for dtype := F32; dtype < Bool; dtype++ {
				for op := Sum; op <= Max; op++ {
					set.Reduce(dtype, op, pc, srcs[:], 201)
				}
				set.Scale(dtype, pc, pa, 201, 0.3)
				set.Divide(dtype, pc, pa, 201, 3)
			}
			set.Reduce(Bool, BXor, pc, srcs[:], 201)
			set.CopyNT(pc, pa, 801)
			set.CopyTwice(pc, pb, pa, 801)
		})
		check.That(t, allocs == 0, "%v: %v allocations", set, allocs)
	}
}
