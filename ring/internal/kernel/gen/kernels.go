package main

import (
	"go/token"
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduction is a kernel that combines arrays. It serves several pairs of type and
// operation where they mean the same.
type reduction struct {
	name    string
	elem    elem
	serves  [][2]string // type, operation
	combine combine
}

// floats is every type of floating point with the precision it is computed in.
func floats() []struct {
	elem
	precision
} {
	return []struct {
		elem
		precision
	}{{f32(), single()}, {f64(), double()}, {f16(), single()}, {bf16(), single()}}
}

// reductions lists what a tier has.
func reductions(t tier) []reduction {
	var all []reduction
	add := func(e elem, name string, c combine, typesOf ...string) {
		r := reduction{name: name + typesOf[0], elem: e, combine: c}
		for _, typ := range typesOf {
			r.serves = append(r.serves, [2]string{typ, name})
		}
		all = append(all, r)
	}
	for _, e := range floats() {
		add(e.elem, "Sum", simple(e.add), e.name)
		add(e.elem, "Prod", simple(e.mul), e.name)
		add(e.elem, "Min", e.lesser, e.name)
		add(e.elem, "Max", e.greater, e.name)
	}
	add(integer(1), "Sum", simple(context.VPADDB), "I8", "U8")
	add(integer(1), "Min", simple(context.VPMINSB), "I8")
	add(integer(1), "Max", simple(context.VPMAXSB), "I8")
	add(integer(1), "Min", simple(context.VPMINUB), "U8")
	add(integer(1), "Max", simple(context.VPMAXUB), "U8")
	add(integer(2), "Sum", simple(context.VPADDW), "I16")
	add(integer(2), "Prod", simple(context.VPMULLW), "I16")
	add(integer(2), "Min", simple(context.VPMINSW), "I16")
	add(integer(2), "Max", simple(context.VPMAXSW), "I16")
	add(integer(4), "Sum", simple(context.VPADDD), "I32")
	add(integer(4), "Prod", simple(context.VPMULLD), "I32")
	add(integer(4), "Min", simple(context.VPMINSD), "I32")
	add(integer(4), "Max", simple(context.VPMAXSD), "I32")
	add(integer(8), "Sum", simple(context.VPADDQ), "I64", "U64")

	and, or, xor := three(context.VPAND), three(context.VPOR), three(context.VPXOR)
	if t.masks {
		and, or, xor = context.VPANDQ, context.VPORQ, context.VPXORQ
		add(integer(8), "Prod", simple(context.VPMULLQ), "I64", "U64")
		add(integer(8), "Min", simple(context.VPMINSQ), "I64")
		add(integer(8), "Max", simple(context.VPMAXSQ), "I64")
		add(integer(8), "Min", simple(context.VPMINUQ), "U64")
		add(integer(8), "Max", simple(context.VPMAXUQ), "U64")
	}
	add(integer(1), "BAnd", simple(and), "I8", "U8", "I16", "I32", "I64", "U64", "Bool")
	add(integer(1), "BOr", simple(or), "I8", "U8", "I16", "I32", "I64", "U64", "Bool")
	add(integer(1), "BXor", simple(xor), "I8", "U8", "I16", "I32", "I64", "U64", "Bool")
	return all
}

// write emits the kernel. For every group of vectors it walks over the sources
// with the results in registers, and writes them once.
func (r reduction) write(c context, t tier) {
	f := begin(c, t, r.name, pointer("dst"), param{"srcs", types.NewPointer(types.Typ[types.UnsafePointer])}, number("k"))
	dst, srcs, k := f.argument("dst"), f.argument("srcs"), f.argument("k")
	if r.elem.name == "BF16" {
		f.setBrain()
	}
	lanes := t.lanes(r.elem)
	at := f.loop(lanes, r.elem.bytes, func(at reg.GPVirtual, vectors int, mask op) {
		src, i := f.GP64(), f.GP64()
		place := func(base reg.GPVirtual, vector int) operand.Mem {
			return operand.Mem{Base: base, Index: at, Scale: 1, Disp: vector * lanes * r.elem.bytes}
		}
		f.MOVQ(operand.Mem{Base: srcs}, src)
		var acc []reg.VecVirtual
		for v := range vectors {
			acc = append(acc, f.load(r.elem, place(src, v), mask))
		}
		f.MOVQ(operand.I32(1), i)
		next := f.label("source")
		f.Label(next)
		f.MOVQ(operand.Mem{Base: srcs, Index: i, Scale: 8}, src)
		for v := range vectors {
			r.combine(f, acc[v], f.load(r.elem, place(src, v), mask))
		}
		f.INCQ(i)
		f.CMPQ(i, k)
		f.JL(operand.LabelRef(next))
		for v := range vectors {
			f.store(r.elem, acc[v], place(dst, v), mask)
		}
	})
	f.finish(at)
}

// writeMap emits dst = src op by, with one number for all elements.
func writeMap(c context, t tier, name string, e elem, p precision, i instruction) {
	kind := types.Typ[types.Float32]
	if e.bytes == 8 {
		kind = types.Typ[types.Float64]
	}
	f := begin(c, t, name+e.name, pointer("dst"), pointer("src"), param{"by", kind})
	dst, src, by := f.argument("dst"), f.argument("src"), f.vector()
	p.broadcast(c, f.address("by"), by)
	if e.name == "BF16" {
		f.setBrain()
	}
	lanes := t.lanes(e)
	at := f.loop(lanes, e.bytes, func(at reg.GPVirtual, vectors int, mask op) {
		for v := range vectors {
			disp := v * lanes * e.bytes
			x := f.load(e, operand.Mem{Base: src, Index: at, Scale: 1, Disp: disp}, mask)
			i(c, by, x, x)
			f.store(e, x, operand.Mem{Base: dst, Index: at, Scale: 1, Disp: disp}, mask)
		}
	})
	f.finish(at)
}

// conversions lists pairs of types, the destination first.
func conversions() [][2]elem {
	return [][2]elem{{f32(), f16()}, {f16(), f32()}, {f32(), bf16()}, {bf16(), f32()}}
}

func conversionName(to, from elem) string { return from.name + "To" + to.name }

// writeConvert emits a conversion. Its offsets are elements.
func writeConvert(c context, t tier, to, from elem) {
	f := begin(c, t, conversionName(to, from), pointer("dst"), pointer("src"))
	dst, src := f.argument("dst"), f.argument("src")
	if to.name == "BF16" {
		f.setBrain()
	}
	lanes := t.lanes(f32())
	at := f.loop(lanes, 1, func(at reg.GPVirtual, vectors int, mask op) {
		for v := range vectors {
			x := f.load(from, operand.Mem{Base: src, Index: at, Scale: uint8(from.bytes), Disp: v * lanes * from.bytes}, mask)
			f.store(to, x, operand.Mem{Base: dst, Index: at, Scale: uint8(to.bytes), Disp: v * lanes * to.bytes}, mask)
		}
	})
	f.finish(at)
}

// writeCopyNT emits a copy past the cache. What is less than a vector is left to
// the caller: there is no such store with a mask.
func writeCopyNT(c context, t tier) {
	t.masks = false
	f := begin(c, t, "CopyNT", pointer("dst"), pointer("src"))
	dst, src := f.argument("dst"), f.argument("src")
	at := f.loop(t.bytes, 1, func(at reg.GPVirtual, vectors int, _ op) {
		for v := range vectors {
			x := f.vector()
			f.VMOVUPS(operand.Mem{Base: src, Index: at, Scale: 1, Disp: v * t.bytes}, x)
			f.VMOVNTDQ(x, operand.Mem{Base: dst, Index: at, Scale: 1, Disp: v * t.bytes})
		}
	})
	f.SFENCE()
	f.finish(at)
}

// writeCPUID emits the instruction that tells what the processor can do.
func writeCPUID(c context) {
	uint32s := func(names ...string) *types.Tuple {
		var vars []*types.Var
		for _, name := range names {
			vars = append(vars, types.NewParam(token.NoPos, nil, name, types.Typ[types.Uint32]))
		}
		return types.NewTuple(vars...)
	}
	sig := types.NewSignatureType(nil, nil, nil, uint32s("leaf", "subleaf"), uint32s("a", "b", "c", "d"), false)
	c.Function("cpuid")
	c.Attributes(attr.NOSPLIT)
	c.Signature(gotypes.NewSignature(nil, sig))
	c.Load(c.Param("leaf"), reg.EAX)
	c.Load(c.Param("subleaf"), reg.ECX)
	c.CPUID()
	c.Store(reg.EAX, c.Return("a"))
	c.Store(reg.EBX, c.Return("b"))
	c.Store(reg.ECX, c.Return("c"))
	c.Store(reg.EDX, c.Return("d"))
	c.RET()
}
