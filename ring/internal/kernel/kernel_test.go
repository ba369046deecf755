package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

const guard = 0xa5

func types() []Type { return []Type{F32, F64, F16, BF16, I8, U8, I16, I32, I64, U64, Bool} }
func ops() []Op     { return []Op{Sum, Prod, Min, Max, BAnd, BOr, BXor} }

// sets returns the kernels that this machine can run, plain Go first.
func sets(testing.TB) []Set {
	var all []Set
	for tier := plain; tier <= avx512; tier++ {
		if tier.runs() {
			all = append(all, Set{tier})
		}
	}
	return all
}

// eachReduction runs a test for every type and operation.
func eachReduction(t *testing.T, test func(t *testing.T, dtype Type, op Op)) {
	for _, dtype := range types() {
		for _, op := range ops() {
			if Valid(dtype, op) {
				t.Run(fmt.Sprintf("%v/%v", dtype, op), func(t *testing.T) { test(t, dtype, op) })
			}
		}
	}
}

// specials returns the bits of edge cases of arithmetic.
func specials(t Type) []uint64 {
	f, float := formatOf(t)
	if !float {
		top := uint64(1) << (8*t.Size() - 1)
		if t == Bool {
			top = 1
		}
		return []uint64{0, 1, top, top - 1, top - 1 + top, top | 1}
	}
	one := uint64(f.bias()) << f.fraction
	values := []uint64{
		0, 1, 2, 1<<f.fraction - 1, 1 << f.fraction, // zero, subnormals, the smallest normal
		one, one + 1, one - 1, one + 1<<f.fraction, f.infinite() - 1, f.infinite(),
		f.infinite() + 1, f.quiet(f.infinite()), f.quiet(f.infinite()) + 3, f.quiet(f.infinite()) - 1, // NaNs
	}
	for _, v := range values {
		values = append(values, v|f.sign())
	}
	return values
}

// random returns the bits of an element: an edge case, any bits, or a number of moderate size.
func random(r *rand.Rand, t Type) uint64 {
	bits := r.Uint64() >> (64 - 8*t.Size())
	if t == Bool {
		return bits & 1
	}
	f, float := formatOf(t)
	switch kind := r.IntN(8); {
	case kind == 0:
		s := specials(t)
		return s[r.IntN(len(s))]
	case kind == 1 || !float:
		return bits
	}
	return f.round(r.NormFloat64() * 3)
}

func fill(r *rand.Rand, t Type, b []byte) {
	for i := range len(b) / t.Size() {
		put(t, b, i, random(r, t))
	}
}

// fillNumbers is fill without NaNs.
func fillNumbers(r *rand.Rand, t Type, b []byte) {
	f, float := formatOf(t)
	for i := range len(b) / t.Size() {
		bits := random(r, t)
		for float && f.isNaN(bits) {
			bits = random(r, t)
		}
		put(t, b, i, bits)
	}
}

// arrays holds arrays of equal length at chosen offsets from a 64-byte line, with guards
// between them.
type arrays struct {
	memory []byte
	at     []int // where each begins
	bytes  int
}

func newArrays(count, bytes int, offset func(array int) int) arrays {
	stride := (bytes+63)&^63 + 128
	a := arrays{memory: make([]byte, stride*(count+1)), bytes: bytes}
	for i := range a.memory {
		a.memory[i] = guard
	}
	base := -int(uintptr(unsafe.Pointer(&a.memory[0]))) & 63
	for i := range count {
		a.at = append(a.at, base+i*stride+offset(i)&63)
	}
	return a
}

func (a arrays) array(i int) []byte { return a.memory[a.at[i]:][:a.bytes:a.bytes] }

func (a arrays) pointer(i int) unsafe.Pointer { return unsafe.Pointer(&a.memory[a.at[i]]) }

// pointers returns the addresses of the first k arrays.
func (a arrays) pointers(k int) []unsafe.Pointer {
	var all []unsafe.Pointer
	for i := range k {
		all = append(all, a.pointer(i))
	}
	return all
}

// same compares whole memories, so that it also finds writes outside an array.
func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		must.Equal(t, got[i], want[i], what, "byte", i, "of memory")
	}
}

// TestReduce checks every tier against the oracle, on all lengths to 130 and all alignments,
// with a destination of its own and with a source as destination.
func TestReduce(t *testing.T) {
	must.HaveTime(t)
	eachReduction(t, func(t *testing.T, dtype Type, op Op) {
		r := rand.New(rand.NewPCG(uint64(dtype), uint64(op)))
		all := sets(t)
		for k := 1; k <= 9; k++ {
			for n := range 131 {
				a := newArrays(k+1, n*dtype.Size(), func(array int) int { return n + k + array*13 })
				fill := fill
				if n%3 != 0 { // most results have no NaN near them
					fill = fillNumbers
				}
				for i := range k {
					fill(r, dtype, a.array(i))
				}
				testReduce(t, all, dtype, op, a, k, n)
			}
		}
	})
}

func testReduce(t *testing.T, sets []Set, dtype Type, op Op, a arrays, k, n int) {
	want := make([]byte, n*dtype.Size())
	elems := make([]uint64, k)
	for i := range n {
		for s := range k {
			elems[s] = get(dtype, a.array(s), i)
		}
		put(dtype, want, i, oracle(dtype, op, elems))
	}
	before := bytes.Clone(a.memory)
	expected := make([]byte, len(before))
	for _, set := range sets {
		for _, dst := range []int{k, n % k} { // array k is no source
			copy(a.memory, before)
			copy(expected, before)
			copy(expected[a.at[dst]:], want)
			set.Reduce(dtype, op, a.pointer(dst), a.pointers(k), n)
			same(t, fmt.Sprintf("%v, %d sources, %d elements, into array %d", set, k, n, dst), a.memory, expected)
		}
	}
}

// TestReduceInPieces checks lengths around that of a piece of work.
func TestReduceInPieces(t *testing.T) {
	for _, k := range []int{2, 5, 300} {
		for _, dtype := range []Type{F32, BF16} {
			piece := max(minPiece, min(maxPiece, maxRead/k&^(minPiece-1))) / dtype.Size()
			for _, n := range []int{piece - 1, piece, piece + 1, 3*piece + 5} {
				a := newArrays(3, n*dtype.Size(), func(array int) int { return array })
				r := rand.New(rand.NewPCG(1, uint64(n)))
				fill(r, dtype, a.array(0))
				fill(r, dtype, a.array(1))
				var srcs []unsafe.Pointer
				for i := range k {
					srcs = append(srcs, a.pointer(i%2))
				}
				var want []byte
				for _, set := range sets(t) {
					set.Reduce(dtype, Sum, a.pointer(2), srcs, n)
					if set.tier == plain {
						want = bytes.Clone(a.memory)
					}
					same(t, fmt.Sprintf("%v %v, %d sources, %d elements", set, dtype, k, n), a.memory, want)
					clear(a.array(2))
				}
			}
		}
	}
}

// TestSpecialPairs combines every special value with every other.
func TestSpecialPairs(t *testing.T) {
	eachReduction(t, func(t *testing.T, dtype Type, op Op) {
		all := specials(dtype)
		n := len(all) * len(all)
		a := newArrays(3, n*dtype.Size(), func(int) int { return 0 })
		for i := range n {
			put(dtype, a.array(0), i, all[i/len(all)])
			put(dtype, a.array(1), i, all[i%len(all)])
		}
		testReduce(t, sets(t), dtype, op, a, 2, n)
	})
}

func TestDetect(t *testing.T) {
	best := must.Get(Detect(""))(t)
	t.Logf("this machine has %v", best)
	for tier := plain; tier <= avx512; tier++ {
		set, err := Detect(tier.String())
		want := plain
		for _, s := range sets(t) {
			if s.tier <= tier {
				want = s.tier
			}
		}
		check.That(t, err == nil && set.tier == want, "Detect(%q) = %v, %v, want %v", tier, set, err, want)
	}
	set, err := Detect("sse9")
	check.That(t, err != nil && set == (Set{}), "Detect of a word without meaning = %v, %v", set, err)
}

func TestValid(t *testing.T) {
	valid := 0
	for dtype := range Type(20) {
		for op := range Op(20) {
			if Valid(dtype, op) {
				valid++
			}
		}
	}
	want := 4*5 + 6*8 + 7
	check.That(t, valid == want, "%d pairs of type and operation are valid, want %d", valid, want)
	for name, f := range map[string]func(){
		"bits of float":  func() { Set{}.Reduce(F32, BXor, nil, nil, 0) },
		"scale of bool":  func() { Set{}.Scale(Bool, nil, nil, 0, 2) },
		"divide by zero": func() { Set{}.Divide(F32, nil, nil, 0, 0) },
	} {
		func() {
			defer func() { check.That(t, recover() != nil, "%s does not panic", name) }()
			f()
		}()
	}
}

func TestNames(t *testing.T) {
	for _, s := range []struct {
		got  fmt.Stringer
		want string
	}{{F32, "float32"}, {BF16, "bfloat16"}, {U64, "uint64"}, {Bool, "bool"}, {Type(0), "type 0"}, {Type(12), "type 12"},
		{Sum, "sum"}, {BXor, "bxor"}, {Op(0), "op 0"}, {Op(9), "op 9"}, {Set{}, "off"}, {Set{avx512}, "avx512"}} {
		check.That(t, s.got.String() == s.want, "%q, want %q", s.got, s.want)
	}
}

// A vector of Bool has 0 and 1 only when it is normalised, wherever it begins and ends.
func TestNormalize(t *testing.T) {
	for length := range 40 {
		for begin := range 9 {
			memory := bytes.Repeat([]byte{guard}, begin+length+9)
			want := bytes.Clone(memory)
			for i := range length {
				memory[begin+i] = byte(rand.Uint32() >> (rand.Uint32() % 32))
				want[begin+i] = min(memory[begin+i], 1)
			}
			Normalize(memory[begin:][:length])
			check.That(t, bytes.Equal(memory, want), "%d from %d: %x, want %x", length, begin, memory, want)
		}
	}
	for b := range 256 {
		vector := bytes.Repeat([]byte{byte(b)}, 9)
		Normalize(vector)
		check.That(t, bytes.Equal(vector, bytes.Repeat([]byte{byte(min(b, 1))}, 9)), "%d: %x", b, vector)
	}
}
