package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
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

// halfPatterns returns all values of a half, and the float32s around which rounding to it
// changes: those halfway between two halves, and their neighbours.
func halfPatterns(dtype Type) (halves, singles []uint64) {
	f, _ := formatOf(dtype)
	single := format{32, 23}
	for h := range uint64(1 << 16) {
		halves = append(halves, h)
		s := single.convert(f, h)
		half := single.convert(f, h) + 1<<(22-f.fraction)
		singles = append(singles, s, half-1, half, half+1)
		if dtype == F16 && h < 1<<f.fraction { // subnormals lie further apart
			middle := single.round(f.value(h) + f.value(1)/2)
			singles = append(singles, middle-1, middle, middle+1, middle|single.sign())
		}
	}
	return halves, singles
}

func TestConvertEveryPattern(t *testing.T) {
	for _, dtype := range []Type{F16, BF16} {
		halves, singles := halfPatterns(dtype)
		testConvert(t, F32, dtype, halves)
		testConvert(t, dtype, F32, singles)
	}
}

func testConvert(t *testing.T, to, from Type, in []uint64) {
	src := newArrays(1, len(in)*from.Size(), func(int) int { return 0 })
	want := newArrays(1, len(in)*to.Size(), func(int) int { return 0 })
	got := newArrays(1, len(in)*to.Size(), func(int) int { return 0 })
	out, _ := formatOf(to)
	format, _ := formatOf(from)
	for i, bits := range in {
		put(from, src.array(0), i, bits)
		put(to, want.array(0), i, out.convert(format, bits))
	}
	for _, set := range sets(t) {
		clear(got.array(0))
		set.Convert(to, got.pointer(0), from, src.pointer(0), len(in))
		for i, bits := range in {
			g := get(to, got.array(0), i)
			w := get(to, want.array(0), i)
			must.That(t, g == w, "%v: %v %#x to %v is %#x, want %#x", set, from, bits, to, g, w)
		}
	}
}

func TestConvertLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, pair := range [][2]Type{{F32, F16}, {F16, F32}, {F32, BF16}, {BF16, F32}, {I64, I64}} {
		for n := range 131 {
			to := pair[0]
			from := pair[1]
			a := newArrays(2, n*8, func(array int) int { return n + array*13 })
			fill(r, from, a.array(0)[:n*from.Size()])
			expected := bytes.Clone(a.memory)
			Set{}.Convert(to, unsafe.Pointer(&expected[a.at[1]]), from, a.pointer(0), n)
			before := bytes.Clone(a.memory)
			for _, set := range sets(t) {
				copy(a.memory, before)
				set.Convert(to, a.pointer(1), from, a.pointer(0), n)
				same(t, fmt.Sprintf("%v, %d elements of %v to %v", set, n, from, to), a.memory, expected)
			}
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
			set.Convert(F16, pc, F32, pa, 201)
			set.Convert(F32, pc, BF16, pa, 201)
			set.CopyNT(pc, pa, 801)
			set.CopyTwice(pc, pb, pa, 801)
		})
		check.That(t, allocs == 0, "%v: %v allocations", set, allocs)
	}
}
