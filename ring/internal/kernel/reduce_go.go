package kernel

import "unsafe"

// blockLen is the number of elements that the Go tier combines at a time. Intermediate
// results stay in a block on the stack, because the destination may be a source.
const blockLen = 256

// array returns the n elements that start from bytes after p. If n is 0, that may be past
// the end of the memory, where a pointer is invalid.
func array[T any](p unsafe.Pointer, from, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(p, from)), n)
}

// reduceGo is the Go tier of [Set.Reduce], for the bytes from, to of each array.
// The operation is canonical.
func reduceGo(t Type, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, from, to int) {
	if op.bitwise() {
		words := from + (to-from)&^7
		reduceNumbers[uint64](op, dst, srcs, from, words)
		reduceNumbers[uint8](op, dst, srcs, words, to)
		return
	}
	switch t {
	case F32:
		reduceNumbers[float32](op, dst, srcs, from, to)
	case F64:
		reduceNumbers[float64](op, dst, srcs, from, to)
	case F16, BF16:
		reduceHalves(t, op, dst, srcs, from, to)
	case I8:
		reduceNumbers[int8](op, dst, srcs, from, to)
	case U8:
		reduceNumbers[uint8](op, dst, srcs, from, to)
	case I16:
		reduceNumbers[int16](op, dst, srcs, from, to)
	case I32:
		reduceNumbers[int32](op, dst, srcs, from, to)
	case I64:
		reduceNumbers[int64](op, dst, srcs, from, to)
	case U64:
		reduceNumbers[uint64](op, dst, srcs, from, to)
	}
}

func reduceNumbers[T number](op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, from, to int) {
	var block [blockLen]T
	size := int(unsafe.Sizeof(block[0]))
	for from < to {
		n := min((to-from)/size, blockLen)
		acc := array[T](srcs[0], from, n)
		for i, src := range srcs[1:] {
			out := block[:n]
			if i == len(srcs)-2 {
				out = array[T](dst, from, n)
			}
			fold(op, out, acc, array[T](src, from, n))
			acc = out
		}
		from += n * size
	}
}

// reduceHalves rounds once, after the last source.
func reduceHalves(t Type, op Op, dst unsafe.Pointer, srcs []unsafe.Pointer, from, to int) {
	var block, next [blockLen]float32
	for from < to {
		n := min((to-from)/2, blockLen)
		acc := block[:n]
		src := next[:n]
		load(t, acc, srcs[0], from)
		for _, p := range srcs[1:] {
			load(t, src, p, from)
			fold(op, acc, acc, src)
		}
		store(t, dst, acc, from)
		from += n * 2
	}
}

// fold sets out to a op b. The compiler removes the test for NaN from instances for
// integers.
func fold[T number](op Op, out, a, b []T) {
	a = a[:len(out)]
	b = b[:len(out)]
	switch out := any(out).(type) {
	case []uint8:
		if op.bitwise() {
			foldBits(op, out, any(a).([]uint8), any(b).([]uint8))
		}
	case []uint64:
		if op.bitwise() {
			foldBits(op, out, any(a).([]uint64), any(b).([]uint64))
		}
	}
	switch op {
	case Sum:
		for i, x := range a {
			sum := x + b[i]
			if sum != sum {
				sum = nan(x, b[i])
			}
			out[i] = sum
		}
	case Prod:
		for i, x := range a {
			prod := x * b[i]
			if prod != prod {
				prod = nan(x, b[i])
			}
			out[i] = prod
		}
	case Min:
		for i, x := range a {
			if first(x, b[i]) {
				out[i] = x
			} else {
				out[i] = b[i]
			}
		}
	case Max:
		for i, x := range a {
			if last(x, b[i]) {
				out[i] = x
			} else {
				out[i] = b[i]
			}
		}
	}
}

func foldBits[T uint8 | uint64](op Op, out, a, b []T) {
	a = a[:len(out)]
	b = b[:len(out)]
	switch op {
	case BAnd:
		for i, x := range a {
			out[i] = x & b[i]
		}
	case BOr:
		for i, x := range a {
			out[i] = x | b[i]
		}
	case BXor:
		for i, x := range a {
			out[i] = x ^ b[i]
		}
	}
}

// load widens the halves that start from bytes after p.
func load(t Type, dst []float32, p unsafe.Pointer, from int) {
	if t == F16 {
		widenAll(dst, array[f16](p, from, len(dst)))
	} else {
		widenAllBrain(dst, array[bf16](p, from, len(dst)))
	}
}

// store narrows src to the halves that start from bytes after p.
func store(t Type, p unsafe.Pointer, src []float32, from int) {
	if t == F16 {
		narrowAll(array[f16](p, from, len(src)), src)
	} else {
		narrowAllBrain(array[bf16](p, from, len(src)), src)
	}
}
