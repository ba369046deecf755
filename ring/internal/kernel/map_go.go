package kernel

import (
	"math"
	"unsafe"
)

// scaleGo is the Go tier of [Set.Scale], for the bytes from, to.
func scaleGo(t Type, dst, src unsafe.Pointer, factor float64, from, to int) {
	switch t {
	case F32:
		mul[float32](dst, src, float32(factor), from, to)
	case F64:
		mul[float64](dst, src, factor, from, to)
	case F16, BF16:
		halves(t, dst, src, from, to, func(x float32) float32 { return product(x, float32(factor)) })
	case I8:
		mulInt[int8](dst, src, factor, from, to, math.MinInt8, math.MaxInt8)
	case U8:
		mulInt[uint8](dst, src, factor, from, to, 0, math.MaxUint8)
	case I16:
		mulInt[int16](dst, src, factor, from, to, math.MinInt16, math.MaxInt16)
	case I32:
		mulInt[int32](dst, src, factor, from, to, math.MinInt32, math.MaxInt32)
	case I64:
		mulInt[int64](dst, src, factor, from, to, math.MinInt64, math.MaxInt64)
	case U64:
		mulInt[uint64](dst, src, factor, from, to, 0, math.MaxUint64)
	}
}

// divideGo is the Go tier of [Set.Divide], for the bytes from, to.
func divideGo(t Type, dst, src unsafe.Pointer, divisor int, from, to int) {
	d := float64(divisor)
	switch t {
	case F32:
		div[float32](dst, src, float32(d), from, to)
	case F64:
		div[float64](dst, src, d, from, to)
	case F16, BF16:
		halves(t, dst, src, from, to, func(x float32) float32 { return quotient(x, float32(d)) })
	case I8:
		divInt[int8](dst, src, int64(divisor), from, to)
	case U8:
		divInt[uint8](dst, src, int64(divisor), from, to)
	case I16:
		divInt[int16](dst, src, int64(divisor), from, to)
	case I32:
		divInt[int32](dst, src, int64(divisor), from, to)
	case I64:
		divInt[int64](dst, src, int64(divisor), from, to)
	case U64:
		divInt[uint64](dst, src, uint64(divisor), from, to)
	}
}

func product[T float](x, factor T) T {
	y := x * factor
	if y != y {
		return nan(x, factor)
	}
	return y
}

func quotient[T float](x, divisor T) T {
	y := x / divisor
	if y != y {
		return nan(x, divisor)
	}
	return y
}

// pair returns the elements of dst and src between two byte offsets.
func pair[T any](dst, src unsafe.Pointer, from, to int) (out, in []T) {
	var zero T
	n := (to - from) / int(unsafe.Sizeof(zero))
	return array[T](dst, from, n), array[T](src, from, n)
}

func mul[T float](dst, src unsafe.Pointer, factor T, from, to int) {
	out, in := pair[T](dst, src, from, to)
	for i, x := range in {
		out[i] = product(x, factor)
	}
}

func div[T float](dst, src unsafe.Pointer, divisor T, from, to int) {
	out, in := pair[T](dst, src, from, to)
	for i, x := range in {
		out[i] = quotient(x, divisor)
	}
}

// halves computes in float32.
func halves(t Type, dst, src unsafe.Pointer, from, to int, f func(float32) float32) {
	var block [blockLen]float32
	for from < to {
		part := block[:min((to-from)/2, blockLen)]
		load(t, part, src, from)
		for i, x := range part {
			part[i] = f(x)
		}
		store(t, dst, part, from)
		from += len(part) * 2
	}
}

type integer interface {
	int8 | uint8 | int16 | int32 | int64 | uint64
}

// mulInt clamps to low and high before it converts, because Go does not define the
// conversion of a number out of range.
func mulInt[T integer](dst, src unsafe.Pointer, factor float64, from, to int, low, high T) {
	out, in := pair[T](dst, src, from, to)
	for i, x := range in {
		switch y := float64(x) * factor; {
		case y >= float64(high):
			out[i] = high
		case y <= float64(low):
			out[i] = low
		case y != y:
			out[i] = 0
		default:
			out[i] = T(y)
		}
	}
}

// divInt divides in W, which holds the divisor whatever T is.
func divInt[T integer, W int64 | uint64](dst, src unsafe.Pointer, divisor W, from, to int) {
	out, in := pair[T](dst, src, from, to)
	for i, x := range in {
		out[i] = T(W(x) / divisor)
	}
}
