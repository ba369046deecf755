package main

import (
	"fmt"
	"go/token"
	"go/types"
	"math/bits"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// function is the assembly function being written.
type function struct {
	context
	tier
	labels int

	// brain holds what rounding to BF16 needs, in every lane.
	brain struct{ one, bias, quiet reg.VecVirtual }
}

// param is a parameter in Go's words.
type param struct {
	name string
	typ  types.Type
}

func pointer(name string) param { return param{name, types.Typ[types.UnsafePointer]} }
func number(name string) param  { return param{name, types.Typ[types.Int]} }

// begin starts a function that works from one offset towards another, the last
// two parameters, and returns how far it came.
func begin(c context, t tier, name string, params ...param) *function {
	var in []*types.Var
	for _, p := range append(params, number("from"), number("to")) {
		in = append(in, types.NewParam(token.NoPos, nil, p.name, p.typ))
	}
	done := types.NewParam(token.NoPos, nil, "done", types.Typ[types.Int])
	c.Function(t.name + name)
	c.Attributes(attr.NOSPLIT)
	c.Signature(gotypes.NewSignature(nil, types.NewSignatureType(nil, nil, nil, types.NewTuple(in...), types.NewTuple(done), false)))
	return &function{context: c, tier: t}
}

// address is where the caller put an argument.
func (f *function) address(name string) operand.Mem {
	basic, err := f.Param(name).Resolve()
	if err != nil {
		panic(err) // a mistake in this program
	}
	return basic.Addr
}

// argument loads a pointer or an int.
func (f *function) argument(name string) reg.GPVirtual {
	r := f.GP64()
	f.MOVQ(f.address(name), r)
	return r
}

func (f *function) label(name string) string {
	f.labels++
	return fmt.Sprintf("%s%d", name, f.labels)
}

func (f *function) vector() reg.VecVirtual { return f.Vec(f.whole) }

// body writes the code for some vectors from the offset at. A mask says which
// lanes exist; nil is all.
type body func(at reg.GPVirtual, vectors int, mask op)

// loop writes a function's loops: over several vectors, over one, and with masks
// over what is left. A vector moves the offset by lanes*unit. It returns where
// the offset is kept.
func (f *function) loop(lanes, unit int, b body) reg.GPVirtual {
	at, to := f.argument("from"), f.argument("to")
	for _, n := range []int{f.unroll, 1} {
		again, end := f.label("loop"), f.label("end")
		f.Label(again)
		next := f.GP64()
		f.LEAQ(operand.Mem{Base: at, Disp: n * lanes * unit}, next)
		f.CMPQ(next, to)
		f.JG(operand.LabelRef(end))
		b(at, n, nil)
		f.MOVQ(next, at)
		f.JMP(operand.LabelRef(again))
		f.Label(end)
	}
	if f.masks {
		f.rest(at, to, unit, b)
	}
	return at
}

// finish returns at to the caller.
func (f *function) finish(at reg.GPVirtual) {
	f.VZEROUPPER()
	done, err := f.ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	f.MOVQ(at, done.Addr)
	f.RET()
}

// rest writes the code for less than a vector.
func (f *function) rest(at, to reg.GPVirtual, unit int, b body) {
	none := f.label("none")
	f.CMPQ(at, to)
	f.JGE(operand.LabelRef(none))
	left, ones, mask := f.GP64(), f.GP64(), f.K()
	f.MOVQ(to, left)
	f.SUBQ(at, left)
	if unit > 1 {
		f.SHRQ(operand.U8(bits.TrailingZeros(uint(unit))), left)
	}
	f.MOVQ(operand.I32(-1), ones)
	f.BZHIQ(left, ones, ones)
	f.KMOVQ(ones, mask)
	b(at, 1, mask)
	f.MOVQ(to, at)
	f.Label(none)
}

// load reads a vector of e and widens it.
func (f *function) load(e elem, mem operand.Mem, mask op) reg.VecVirtual {
	v := f.vector()
	raw := v
	if e.widen != nil {
		raw = f.Vec(f.half)
	}
	switch {
	case !f.masks:
		f.VMOVDQU(mem, raw)
	case mask == nil:
		e.move(f.context, mem, raw)
	default:
		e.moveZero(f.context, mem, mask, raw)
	}
	if e.widen != nil {
		e.widen(f, raw, v)
	}
	return v
}

// store narrows a vector to e and writes it.
func (f *function) store(e elem, v reg.VecVirtual, mem operand.Mem, mask op) {
	raw := v
	if e.narrow != nil {
		raw = f.Vec(f.half)
		e.narrow(f, v, raw)
	}
	switch {
	case !f.masks:
		f.VMOVDQU(raw, mem)
	case mask == nil:
		e.move(f.context, raw, mem)
	default:
		e.move(f.context, raw, mask, mem)
	}
}
