package kernel

import (
	"encoding/binary"
	"math"
)

// The oracle computes one element at a time, from bits to bits. It shares no code with the
// kernels.

// format is a floating-point format: its bits, and those of the fraction.
type format struct{ bits, fraction int }

func formatOf(t Type) (f format, ok bool) {
	switch t {
	case F16:
		return format{16, 10}, true
	case BF16:
		return format{16, 7}, true
	case F32:
		return format{32, 23}, true
	case F64:
		return format{64, 52}, true
	}
	return format{}, false
}

func (f format) bias() int                { return 1<<(f.bits-f.fraction-2) - 1 }
func (f format) sign() uint64             { return 1 << (f.bits - 1) }
func (f format) infinite() uint64         { return (1<<(f.bits-f.fraction-1) - 1) << f.fraction }
func (f format) isNaN(bits uint64) bool   { return bits&^f.sign() > f.infinite() }
func (f format) quiet(bits uint64) uint64 { return bits | 1<<(f.fraction-1) }

// value returns the exact value of bits, which are not NaN.
func (f format) value(bits uint64) float64 {
	fraction := float64(bits & (1<<f.fraction - 1))
	exponent := int(bits &^ f.sign() >> f.fraction)
	v := math.Inf(1)
	switch {
	case exponent == 0:
		v = math.Ldexp(fraction, 1-f.bias()-f.fraction)
	case bits&^f.sign() != f.infinite():
		v = math.Ldexp(fraction+math.Ldexp(1, f.fraction), exponent-f.bias()-f.fraction)
	}
	if bits&f.sign() != 0 {
		return -v
	}
	return v
}

// round returns the bits nearest to v, ties to even. v is not NaN.
func (f format) round(v float64) uint64 {
	var sign uint64
	if math.Signbit(v) {
		sign = f.sign()
		v = -v
	}
	if math.IsInf(v, 0) {
		return sign | f.infinite()
	}
	_, exponent := math.Frexp(v)
	exponent = max(exponent-1, 1-f.bias())
	units := uint64(math.RoundToEven(math.Ldexp(v, f.fraction-exponent)))
	if units < 1<<f.fraction {
		return sign | units
	}
	return sign | min(uint64(exponent+f.bias()-1)<<f.fraction+units, f.infinite())
}

// convert returns Convert of one element between F32 and a half.
func (f format) convert(from format, bits uint64) uint64 {
	if !from.isNaN(bits) {
		return f.round(from.value(bits))
	}
	sign := bits&from.sign() != 0
	payload := bits & (1<<from.fraction - 1)
	out := f.infinite() | payload<<max(0, f.fraction-from.fraction)>>max(0, from.fraction-f.fraction)
	if from.fraction != 7 { // widening BF16 is a shift
		out = f.quiet(out)
	}
	if sign {
		out |= f.sign()
	}
	return out
}

// arithmetic returns a op b for Sum and Prod.
func (f format) arithmetic(op Op, a, b uint64) uint64 {
	switch {
	case f.isNaN(a):
		return f.quiet(a)
	case f.isNaN(b):
		return f.quiet(b)
	}
	x := f.value(a)
	y := f.value(b)
	v := x + y
	if op == Prod {
		v = x * y
	}
	if v != v {
		return f.quiet(f.sign() | f.infinite())
	}
	// Sum and product of float32 are exact in float64, or so close that double
	// rounding has no effect: 53 >= 2*24+2 bits.
	return f.round(v)
}

// order maps bits to integers in the order of Min and Max.
func (f format) order(bits uint64) int64 {
	if bits&f.sign() != 0 {
		return -1 - int64(bits&^f.sign())
	}
	return int64(bits)
}

func (f format) combine(op Op, a, b uint64) uint64 {
	if op == Sum || op == Prod {
		return f.arithmetic(op, a, b)
	}
	switch {
	case f.isNaN(a):
		return a
	case f.isNaN(b):
		return b
	case (f.order(a) < f.order(b)) == (op == Min):
		return a
	}
	return b
}

// oracle returns Reduce of one element.
func oracle(t Type, op Op, elems []uint64) uint64 {
	if len(elems) == 1 {
		return elems[0]
	}
	f, float := formatOf(t)
	if !float {
		acc := elems[0]
		for _, e := range elems[1:] {
			acc = combineInt(t, op, acc, e)
		}
		return acc
	}
	single := format{32, 23}
	wide := func(bits uint64) uint64 {
		if t.half() {
			return single.convert(f, bits)
		}
		return bits
	}
	if !t.half() {
		single = f
	}
	acc := wide(elems[0])
	for _, e := range elems[1:] {
		acc = single.combine(op, acc, wide(e))
	}
	if t.half() {
		return f.convert(single, acc)
	}
	return acc
}

func combineInt(t Type, op Op, a, b uint64) uint64 {
	shift := 64 - 8*t.Size()
	mask := ^uint64(0) >> shift
	less := int64(a<<shift) < int64(b<<shift)
	if t == U8 || t == U64 {
		less = a < b
	}
	if t == Bool { // arithmetic that stays in {0, 1}
		switch op {
		case Sum:
			op = Max
		case Prod:
			op = Min
		}
		less = a < b
	}
	switch op {
	case Sum:
		return (a + b) & mask
	case Prod:
		return (a * b) & mask
	case BAnd:
		return a & b
	case BOr:
		return a | b
	case BXor:
		return a ^ b
	}
	if less == (op == Min) {
		return a
	}
	return b
}

// get and put access element i of an array in memory.
func get(t Type, b []byte, i int) uint64 {
	var word [8]byte
	copy(word[:], b[i*t.Size():(i+1)*t.Size()])
	return binary.LittleEndian.Uint64(word[:])
}

func put(t Type, b []byte, i int, bits uint64) {
	word := binary.LittleEndian.AppendUint64(nil, bits)
	copy(b[i*t.Size():(i+1)*t.Size()], word)
}

// half reports whether t is computed in float32.
func (t Type) half() bool { return t == F16 || t == BF16 }
