package kernel

import "math"

// f16 and bf16 are the bits of the two 16-bit formats: IEEE binary16 (5 bits of
// exponent, 10 of fraction), and the upper half of a float32.
type (
	f16  uint16
	bf16 uint16
)

const (
	signless = 0x7fffffff // all but the sign of a float32
	infinity = 0x7f800000 // the bits of a float32; above it are the NaNs
	rebias   = 112 << 23  // the exponent of a float32 less that of an f16: 127 - 15
)

// widen returns the float32 with the value of h.
func widen(h f16) float32 {
	sign := uint32(h) & 0x8000 << 16
	rest := uint32(h) & 0x7fff << 13
	switch {
	case rest > 0x7c00<<13:
		rest |= 0x7fc00000
	case rest == 0x7c00<<13:
		rest = infinity
	case rest >= 0x0400<<13:
		rest += rebias
	default: // subnormal: a multiple of 2^-24
		rest = math.Float32bits(float32(h&0x3ff) * 0x1p-24)
	}
	return math.Float32frombits(sign | rest)
}

// narrow returns the f16 nearest to x.
func narrow(x float32) f16 {
	bits := math.Float32bits(x)
	sign := f16(bits>>16) & 0x8000
	rest := bits & signless
	switch {
	case rest > infinity:
		return sign | 0x7e00 | f16(rest>>13)&0x3ff
	case rest >= 0x477ff000: // halfway between the largest f16 and the next power of two
		return sign | 0x7c00
	case rest >= 0x38800000: // 2^-14, the smallest normal f16
		return sign | f16((rest+0xfff+rest>>13&1-rebias)>>13)
	}
	// Between 0.5 and 1 a float32 is a multiple of 2^-24, as a subnormal f16 is,
	// so the addition rounds as it must.
	return sign | f16(math.Float32bits(math.Float32frombits(rest)+0.5)-math.Float32bits(0.5))
}

func widenBrain(h bf16) float32 { return math.Float32frombits(uint32(h) << 16) }

// narrowBrain returns the bf16 nearest to x.
func narrowBrain(x float32) bf16 {
	bits := math.Float32bits(x)
	if bits&signless > infinity {
		return bf16(bits>>16) | 0x40
	}
	return bf16((bits + 0x7fff + bits>>16&1) >> 16)
}

func widenAll(dst []float32, src []f16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = widen(h)
	}
}

func narrowAll(dst []f16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = narrow(x)
	}
}

func widenAllBrain(dst []float32, src []bf16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = widenBrain(h)
	}
}

func narrowAllBrain(dst []bf16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = narrowBrain(x)
	}
}

// Half returns the bits of the F16 nearest to x.
func Half(x float32) uint16 { return uint16(narrow(x)) }

// Brain returns the bits of the BF16 nearest to x.
func Brain(x float32) uint16 { return uint16(narrowBrain(x)) }
