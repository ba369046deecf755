package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Predicates of the compare instructions, both false or true for NaN as named.
const (
	equal     = operand.U8(0)
	unordered = operand.U8(3)
)

// precision is the instructions of one width of floating point.
type precision struct {
	add, mul, div, min, max instruction
	compare                 instruction
	and, andNot, or         instruction
	blend                   func(c context, mask, yes, no, dst op) // without masks
	choose                  instruction                            // by a mask
	broadcast               instruction
}

func single() precision {
	return precision{
		add: context.VADDPS, mul: context.VMULPS, div: context.VDIVPS, min: context.VMINPS, max: context.VMAXPS,
		compare: context.VCMPPS, and: context.VANDPS, andNot: context.VANDNPS, or: context.VORPS,
		blend:     context.VBLENDVPS,
		choose:    context.VBLENDMPS,
		broadcast: context.VBROADCASTSS,
	}
}

func double() precision {
	return precision{
		add: context.VADDPD, mul: context.VMULPD, div: context.VDIVPD, min: context.VMINPD, max: context.VMAXPD,
		compare: context.VCMPPD, and: context.VANDPD, andNot: context.VANDNPD, or: context.VORPD,
		blend:     context.VBLENDVPD,
		choose:    context.VBLENDMPD,
		broadcast: context.VBROADCASTSD,
	}
}

// combine writes acc = acc op src.
type combine func(f *function, acc, src reg.VecVirtual)

// simple is an operation that is one instruction. If both operands are NaN, x86
// takes the first, which is acc.
func simple(i instruction) combine {
	return func(f *function, acc, src reg.VecVirtual) { i(f.context, src, acc, acc) }
}

// lesser is Min: the instruction takes src if the two are equal or one of them is
// NaN. So what is missing is -0 if one of two zeros is that, and acc if it is NaN.
func (p precision) lesser(f *function, acc, src reg.VecVirtual) {
	result := f.vector()
	if f.masks {
		tie := f.K()
		p.compare(f.context, equal, src, acc, tie)
		p.min(f.context, src, acc, result)
		p.or(f.context, src, acc, tie, result)
	} else {
		tie := f.vector()
		p.compare(f.context, equal, src, acc, tie)
		p.min(f.context, src, acc, result)
		p.and(f.context, acc, tie, tie)
		p.or(f.context, tie, result, result)
	}
	p.keepNaN(f, acc, result)
}

// greater is Max; here +0 is missing.
func (p precision) greater(f *function, acc, src reg.VecVirtual) {
	result := f.vector()
	if f.masks {
		tie := f.K()
		p.compare(f.context, equal, src, acc, tie)
		p.max(f.context, src, acc, result)
		p.and(f.context, src, acc, tie, result)
	} else {
		tie := f.vector()
		p.compare(f.context, equal, src, acc, tie)
		p.max(f.context, src, acc, result)
		p.andNot(f.context, tie, acc, tie)       // the bits src may have and acc has not
		p.andNot(f.context, result, tie, result) // are cleared
	}
	p.keepNaN(f, acc, result)
}

// keepNaN sets acc to result where it is not NaN.
func (p precision) keepNaN(f *function, acc, result reg.VecVirtual) {
	if f.masks {
		isNaN := f.K()
		p.compare(f.context, unordered, acc, acc, isNaN)
		p.choose(f.context, acc, result, isNaN, acc)
		return
	}
	isNaN := f.vector()
	p.compare(f.context, unordered, acc, acc, isNaN)
	p.blend(f.context, isNaN, acc, result, acc)
}

// setBrain loads the constants of narrowBrain.
func (f *function) setBrain() {
	constant := func(value uint32) reg.VecVirtual {
		r, v := f.GP32(), f.vector()
		f.MOVL(operand.U32(value), r)
		x := f.XMM()
		f.VMOVD(r, x)
		f.VPBROADCASTD(x, v)
		return v
	}
	f.brain.one, f.brain.bias, f.brain.quiet = constant(1), constant(0x7fff), constant(0x40)
}

// narrowBrain rounds float32 to BF16 in integer arithmetic. The processor's own
// instruction would flush subnormals to zero.
func (f *function) narrowBrain(src, dst reg.VecVirtual) {
	top, sum := f.vector(), f.vector()
	f.VPSRLD(operand.U8(16), src, top)
	if f.masks {
		isNaN := f.K()
		f.VPANDD(f.brain.one, top, sum)
		f.roundBrain(src, sum)
		f.VCMPPS(unordered, src, src, isNaN)
		f.VPORD(f.brain.quiet, top, isNaN, sum)
		f.VPMOVDW(sum, dst)
		return
	}
	isNaN := f.vector()
	f.VPAND(f.brain.one, top, sum)
	f.roundBrain(src, sum)
	f.VCMPPS(unordered, src, src, isNaN)
	f.VPOR(f.brain.quiet, top, top)
	f.VBLENDVPS(isNaN, top, sum, sum)
	f.VPACKUSDW(sum, sum, sum) // each half of the vector twice
	f.VPERMQ(operand.U8(0b1000), sum, sum)
	f.VMOVDQU(sum.AsX(), dst)
}

// roundBrain makes sum, the lowest bit that stays, the rounded upper half of src.
func (f *function) roundBrain(src, sum reg.VecVirtual) {
	f.VPADDD(src, sum, sum)
	f.VPADDD(f.brain.bias, sum, sum)
	f.VPSRLD(operand.U8(16), sum, sum)
}
