package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

type (
	context = *build.Context
	op      = operand.Op

	// instruction is one of avo's constructors. Operands are in the order of Go's
	// assembler, which is Intel's reversed: sources from last to first, then the
	// destination.
	instruction = func(context, ...op)
)

// three makes an instruction of one that avo knows in a single form.
func three(i func(c context, src2, src1, dst op)) instruction {
	return func(c context, ops ...op) { i(c, ops[0], ops[1], ops[2]) }
}

// tier is an instruction set.
type tier struct {
	name   string
	whole  reg.Spec // a vector register
	half   reg.Spec // one half as long
	bytes  int      // in a whole one
	unroll int      // how many of them a loop works on at a time

	// masks says whether instructions can leave out lanes. Without that, what is
	// less than a vector at the end is left to the caller, in Go.
	masks bool
}

func tiers() []tier {
	return []tier{
		{name: "avx2", whole: reg.S256, half: reg.S128, bytes: 32, unroll: 4},
		{name: "avx512", whole: reg.S512, half: reg.S256, bytes: 64, unroll: 4, masks: true},
	}
}

// elem is a type in memory.
type elem struct {
	name  string
	bytes int

	// move loads and stores vectors, moveZero loads and puts zeros in the lanes
	// left out. Both are for tiers with masks.
	move     instruction
	moveZero func(c context, mem, mask, dst op)

	// widen and narrow are nil for types that are computed as they are. The others
	// are computed in float32.
	widen  func(f *function, src, dst reg.VecVirtual)
	narrow func(f *function, src, dst reg.VecVirtual)
}

func f32() elem {
	return elem{name: "F32", bytes: 4, move: context.VMOVDQU32, moveZero: context.VMOVDQU32_Z}
}

func f64() elem {
	return elem{name: "F64", bytes: 8, move: context.VMOVDQU64, moveZero: context.VMOVDQU64_Z}
}

func f16() elem {
	return elem{
		name: "F16", bytes: 2, move: context.VMOVDQU16, moveZero: context.VMOVDQU16_Z,
		widen:  func(f *function, src, dst reg.VecVirtual) { f.VCVTPH2PS(src, dst) },
		narrow: func(f *function, src, dst reg.VecVirtual) { f.VCVTPS2PH(operand.U8(0), src, dst) },
	}
}

func bf16() elem {
	return elem{
		name: "BF16", bytes: 2, move: context.VMOVDQU16, moveZero: context.VMOVDQU16_Z,
		widen: func(f *function, src, dst reg.VecVirtual) {
			f.VPMOVZXWD(src, dst)
			f.VPSLLD(operand.U8(16), dst, dst)
		},
		narrow: (*function).narrowBrain,
	}
}

// integer is any type of that size; what tells them apart is the instructions.
func integer(bytes int) elem {
	switch bytes {
	case 1:
		return elem{bytes: 1, move: context.VMOVDQU8, moveZero: context.VMOVDQU8_Z}
	case 2:
		return elem{bytes: 2, move: context.VMOVDQU16, moveZero: context.VMOVDQU16_Z}
	case 4:
		return f32()
	}
	return f64()
}

// lanes is how many elements of e are computed in one vector.
func (t tier) lanes(e elem) int {
	if e.widen != nil {
		return t.bytes / 4
	}
	return t.bytes / e.bytes
}
