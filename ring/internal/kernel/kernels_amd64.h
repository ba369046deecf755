// The kernels of both tiers: the loops, and one function for each operation and type. A tier's file
// includes this file and defines before:
//
//   V0 to V4       vector registers for elements; HALF, a register of half their length
//   BY             a vector register for the number to multiply or divide by
//   BYTES          the bytes of a vector
//   ONE, BIAS, QUIET   vector registers with what rounding to BF16 needs, in every lane
//   READ, WRITE    move a vector; REST does what is less than one, with READ_MASKED and WRITE_MASKED
//   ONLY_AVX512    a kernel whose instructions AVX2 lacks, or nothing
//   AND, OR, XOR   the instructions on bits
//   MIN_PS, MAX_PS, MIN_PD, MAX_PD   acc = the lesser or greater of acc and src; see the package
//   BRAIN_STORE    rounds float32 to BF16 in integer arithmetic and writes it: the processor's own
//                  instruction flushes subnormals to zero
//
// Registers of all kernels: AX is dst, CX the source or the array of DX sources, BX the offset
// reached, SI the offset to reach.

#include "go_asm.h"
#include "textflag.h"

// RUN defines the function that jumps to a kernel by its number. The kernel returns the offset it
// reached. Where the table has none, nothing is done.
#define RUN(name) \
TEXT name(SB), NOSPLIT, $0-56 \
	MOVQ number+0(FP), R8 \
	MOVQ dst+8(FP), AX \
	MOVQ src+16(FP), CX \
	MOVQ x+24(FP), DX \
	MOVQ from+32(FP), BX \
	MOVQ to+40(FP), SI \
	LEAQ kernels<>(SB), R9 \
	MOVQ (R9)(R8*8), R8 \
	TESTQ R8, R8 \
	JEQ none \
	VPBROADCASTD brain<>+0(SB), ONE \
	VPBROADCASTD brain<>+4(SB), BIAS \
	VPBROADCASTD brain<>+8(SB), QUIET \
	JMP R8 \
none: \
	MOVQ BX, done+48(FP) \
	RET

#define KERNEL(op, type, name) \
DATA kernels<>+(((type)*const_typeStride+(op))*8)(SB)/8, $name<>(SB) \
TEXT name<>(SB), NOSPLIT, $0-56

#define FINISH \
	VZEROUPPER \
	MOVQ BX, done+48(FP) \
	RET

// REDUCE walks over the sources with the results of four vectors, and then of one, in registers,
// and writes them once. A vector takes step bytes of memory; an element takes 1<<log2, and move is
// the instruction that moves elements under a mask.
#define REDUCE(op, type, name, load, combine, by, store, step, move, log2) \
KERNEL(op, type, name) \
four: \
	LEAQ (4*step)(BX), DI \
	CMPQ DI, SI \
	JGT one \
	MOVQ (CX), R8 \
	load(READ, move, (0*step)(R8)(BX*1), V0) \
	load(READ, move, (1*step)(R8)(BX*1), V1) \
	load(READ, move, (2*step)(R8)(BX*1), V2) \
	load(READ, move, (3*step)(R8)(BX*1), V3) \
	MOVQ $1, R9 \
source: \
	MOVQ (CX)(R9*8), R8 \
	load(READ, move, (0*step)(R8)(BX*1), V4) \
	combine(by, V4, V0) \
	load(READ, move, (1*step)(R8)(BX*1), V4) \
	combine(by, V4, V1) \
	load(READ, move, (2*step)(R8)(BX*1), V4) \
	combine(by, V4, V2) \
	load(READ, move, (3*step)(R8)(BX*1), V4) \
	combine(by, V4, V3) \
	INCQ R9 \
	CMPQ R9, DX \
	JLT source \
	store(WRITE, move, V0, (0*step)(AX)(BX*1)) \
	store(WRITE, move, V1, (1*step)(AX)(BX*1)) \
	store(WRITE, move, V2, (2*step)(AX)(BX*1)) \
	store(WRITE, move, V3, (3*step)(AX)(BX*1)) \
	MOVQ DI, BX \
	JMP four \
one: \
	LEAQ step(BX), DI \
	CMPQ DI, SI \
	JGT rest \
	REDUCE_VECTOR(sourceOfOne, READ, WRITE, load, combine, by, store, move) \
	MOVQ DI, BX \
	JMP one \
rest: \
	REST(log2, REDUCE_VECTOR(sourceOfRest, READ_MASKED, WRITE_MASKED, load, combine, by, store, move)) \
	FINISH

#define REDUCE_VECTOR(source, read, write, load, combine, by, store, move) \
	MOVQ (CX), R8 \
	load(read, move, (R8)(BX*1), V0) \
	MOVQ $1, R9 \
source: \
	MOVQ (CX)(R9*8), R8 \
	load(read, move, (R8)(BX*1), V4) \
	combine(by, V4, V0) \
	INCQ R9 \
	CMPQ R9, DX \
	JLT source \
	store(write, move, V0, (AX)(BX*1))

// MAP writes what apply makes of each element. A vector is count bytes. Elements are moved under a
// mask by the instruction move.
#define MAP(load, apply, by, store, count, move) \
four: \
	LEAQ (4*count)(BX), DI \
	CMPQ DI, SI \
	JGT one \
	MAP_VECTOR(READ, WRITE, load, apply, by, store, (0*count)(CX)(BX*1), (0*count)(AX)(BX*1), move) \
	MAP_VECTOR(READ, WRITE, load, apply, by, store, (1*count)(CX)(BX*1), (1*count)(AX)(BX*1), move) \
	MAP_VECTOR(READ, WRITE, load, apply, by, store, (2*count)(CX)(BX*1), (2*count)(AX)(BX*1), move) \
	MAP_VECTOR(READ, WRITE, load, apply, by, store, (3*count)(CX)(BX*1), (3*count)(AX)(BX*1), move) \
	MOVQ DI, BX \
	JMP four \
one: \
	LEAQ (count)(BX), DI \
	CMPQ DI, SI \
	JGT rest \
	MAP_VECTOR(READ, WRITE, load, apply, by, store, (CX)(BX*1), (AX)(BX*1), move) \
	MOVQ DI, BX \
	JMP one \
rest:

#define MAP_VECTOR(read, write, load, apply, by, store, from, to, move) \
	load(read, move, from, V0) \
	apply(by, BY, V0) \
	store(write, move, V0, to)

#define MAP_BY(op, type, name, load, by, store, fill, step, move, log2) \
KERNEL(op, type, name) \
	fill x+24(FP), BY \
	MAP(load, SIMPLE, by, store, step, move) \
	REST(log2, MAP_VECTOR(READ_MASKED, WRITE_MASKED, load, SIMPLE, by, store, (CX)(BX*1), (AX)(BX*1), move)) \
	FINISH

// How elements come from memory and go there.
#define LOAD(read, move, mem, v) read(move, mem, v)
#define STORE(write, move, v, mem) write(move, v, mem)
#define HALF_LOAD(read, move, mem, v) \
	read(move, mem, HALF) \
	VCVTPH2PS HALF, v
#define HALF_STORE(write, move, v, mem) \
	VCVTPS2PH $0, v, HALF \
	write(move, HALF, mem)
#define BRAIN_LOAD(read, move, mem, v) \
	read(move, mem, HALF) \
	VPMOVZXWD HALF, v \
	VPSLLD $16, v, v
#define STREAM(write, move, v, mem) VMOVNTDQ v, mem

// SIMPLE is an operation of one instruction. If both operands are NaN, x86 takes the first, which
// is acc.
#define SIMPLE(by, src, acc) by src, acc, acc
#define NOTHING(by, src, acc)

#define REDUCE_F32(op, name, combine, by)  REDUCE(op, const_F32, name, LOAD, combine, by, STORE, BYTES, VMOVDQU32, 2)
#define REDUCE_F64(op, name, combine, by)  REDUCE(op, const_F64, name, LOAD, combine, by, STORE, BYTES, VMOVDQU64, 3)
#define REDUCE_F16(op, name, combine, by)  REDUCE(op, const_F16, name, HALF_LOAD, combine, by, HALF_STORE, (BYTES/2), VMOVDQU16, 1)
#define REDUCE_BF16(op, name, combine, by) REDUCE(op, const_BF16, name, BRAIN_LOAD, combine, by, BRAIN_STORE, (BYTES/2), VMOVDQU16, 1)
#define REDUCE_8(op, type, name, by)       REDUCE(op, type, name, LOAD, SIMPLE, by, STORE, BYTES, VMOVDQU8, 0)
#define REDUCE_16(op, type, name, by)      REDUCE(op, type, name, LOAD, SIMPLE, by, STORE, BYTES, VMOVDQU16, 1)
#define REDUCE_32(op, type, name, by)      REDUCE(op, type, name, LOAD, SIMPLE, by, STORE, BYTES, VMOVDQU32, 2)
#define REDUCE_64(op, type, name, by)      REDUCE(op, type, name, LOAD, SIMPLE, by, STORE, BYTES, VMOVDQU64, 3)

// The table must be filled in the order of types, and of operations for each.

// Masked stores cannot bypass the cache, so the caller computes the rest.
KERNEL(const_opStream, 0, stream)
	MAP(LOAD, NOTHING, , STREAM, BYTES, )
	SFENCE
	FINISH

// CX is the array of the source and the destination in the cache.
KERNEL(const_opTwice, 0, twice)
	MOVQ (CX), R8
	MOVQ 8(CX), R9
four:
	LEAQ (4*BYTES)(BX), DI
	CMPQ DI, SI
	JGT one
	READ( , (0*BYTES)(R8)(BX*1), V0)
	READ( , (1*BYTES)(R8)(BX*1), V1)
	READ( , (2*BYTES)(R8)(BX*1), V2)
	READ( , (3*BYTES)(R8)(BX*1), V3)
	WRITE( , V0, (0*BYTES)(R9)(BX*1))
	WRITE( , V1, (1*BYTES)(R9)(BX*1))
	WRITE( , V2, (2*BYTES)(R9)(BX*1))
	WRITE( , V3, (3*BYTES)(R9)(BX*1))
	STREAM( , , V0, (0*BYTES)(AX)(BX*1))
	STREAM( , , V1, (1*BYTES)(AX)(BX*1))
	STREAM( , , V2, (2*BYTES)(AX)(BX*1))
	STREAM( , , V3, (3*BYTES)(AX)(BX*1))
	MOVQ DI, BX
	JMP four
one:
	LEAQ BYTES(BX), DI
	CMPQ DI, SI
	JGT rest
	READ( , (R8)(BX*1), V0)
	WRITE( , V0, (R9)(BX*1))
	STREAM( , , V0, (AX)(BX*1))
	MOVQ DI, BX
	JMP one
rest:
	SFENCE
	FINISH

REDUCE_F32(const_Sum, sumF32, SIMPLE, VADDPS)
REDUCE_F32(const_Min, minF32, MIN_PS, )
REDUCE_F32(const_Max, maxF32, MAX_PS, )
REDUCE_F32(const_Prod, prodF32, SIMPLE, VMULPS)
MAP_BY(const_opScale, const_F32, mulF32, LOAD, VMULPS, STORE, VBROADCASTSS, BYTES, VMOVDQU32, 2)
MAP_BY(const_opDivide, const_F32, divF32, LOAD, VDIVPS, STORE, VBROADCASTSS, BYTES, VMOVDQU32, 2)

REDUCE_F64(const_Sum, sumF64, SIMPLE, VADDPD)
REDUCE_F64(const_Min, minF64, MIN_PD, )
REDUCE_F64(const_Max, maxF64, MAX_PD, )
REDUCE_F64(const_Prod, prodF64, SIMPLE, VMULPD)
MAP_BY(const_opScale, const_F64, mulF64, LOAD, VMULPD, STORE, VBROADCASTSD, BYTES, VMOVDQU64, 3)
MAP_BY(const_opDivide, const_F64, divF64, LOAD, VDIVPD, STORE, VBROADCASTSD, BYTES, VMOVDQU64, 3)

REDUCE_F16(const_Sum, sumF16, SIMPLE, VADDPS)
REDUCE_F16(const_Min, minF16, MIN_PS, )
REDUCE_F16(const_Max, maxF16, MAX_PS, )
REDUCE_F16(const_Prod, prodF16, SIMPLE, VMULPS)
MAP_BY(const_opScale, const_F16, mulF16, HALF_LOAD, VMULPS, HALF_STORE, VBROADCASTSS, (BYTES/2), VMOVDQU16, 1)
MAP_BY(const_opDivide, const_F16, divF16, HALF_LOAD, VDIVPS, HALF_STORE, VBROADCASTSS, (BYTES/2), VMOVDQU16, 1)

REDUCE_BF16(const_Sum, sumBF16, SIMPLE, VADDPS)
REDUCE_BF16(const_Min, minBF16, MIN_PS, )
REDUCE_BF16(const_Max, maxBF16, MAX_PS, )
REDUCE_BF16(const_Prod, prodBF16, SIMPLE, VMULPS)
MAP_BY(const_opScale, const_BF16, mulBF16, BRAIN_LOAD, VMULPS, BRAIN_STORE, VBROADCASTSS, (BYTES/2), VMOVDQU16, 1)
MAP_BY(const_opDivide, const_BF16, divBF16, BRAIN_LOAD, VDIVPS, BRAIN_STORE, VBROADCASTSS, (BYTES/2), VMOVDQU16, 1)

REDUCE_8(const_Sum, const_I8, sumI8, VPADDB)
REDUCE_8(const_Min, const_I8, minI8, VPMINSB)
REDUCE_8(const_Max, const_I8, maxI8, VPMAXSB)
REDUCE_8(const_BAnd, const_I8, and, AND)
REDUCE_8(const_BOr, const_I8, or, OR)
REDUCE_8(const_BXor, const_I8, xor, XOR)
REDUCE_8(const_Min, const_U8, minU8, VPMINUB)
REDUCE_8(const_Max, const_U8, maxU8, VPMAXUB)
REDUCE_16(const_Sum, const_I16, sumI16, VPADDW)
REDUCE_16(const_Min, const_I16, minI16, VPMINSW)
REDUCE_16(const_Max, const_I16, maxI16, VPMAXSW)
REDUCE_16(const_Prod, const_I16, prodI16, VPMULLW)
REDUCE_32(const_Sum, const_I32, sumI32, VPADDD)
REDUCE_32(const_Min, const_I32, minI32, VPMINSD)
REDUCE_32(const_Max, const_I32, maxI32, VPMAXSD)
REDUCE_32(const_Prod, const_I32, prodI32, VPMULLD)
REDUCE_64(const_Sum, const_I64, sumI64, VPADDQ)
ONLY_AVX512(REDUCE_64(const_Min, const_I64, minI64, VPMINSQ))
ONLY_AVX512(REDUCE_64(const_Max, const_I64, maxI64, VPMAXSQ))
ONLY_AVX512(REDUCE_64(const_Prod, const_I64, prodI64, VPMULLQ))
ONLY_AVX512(REDUCE_64(const_Min, const_U64, minU64, VPMINUQ))
ONLY_AVX512(REDUCE_64(const_Max, const_U64, maxU64, VPMAXUQ))

GLOBL kernels<>(SB), RODATA, $(const_kernels*8)

DATA brain<>+0(SB)/4, $1
DATA brain<>+4(SB)/4, $0x7fff
DATA brain<>+8(SB)/4, $0x40
GLOBL brain<>(SB), RODATA, $12
