// The kernels for arm64: the loops, and one function for each operation and type. Go's assembler lacks most
// vector instructions, so they are written as words: an instruction's own bits, plus the numbers of the registers
// that it reads and writes.
//
// A kernel works on four vectors of 16 bytes at a time: V0 to V3 hold the results, V4 to V7 the elements of a source. V16
// to V23 are scratch; V24 is the number to multiply or divide by; V25 and V26 hold what rounding to BF16 needs.
//
// The processor chooses other NaNs than the package promises. So a kernel whose result may be NaN looks for one before it
// writes the four vectors, and stops there. Plain Go goes on: see resume.
//
// Registers of all kernels: R0 is dst, R1 the source or the array of R2 sources, R3 the offset reached, R4 the offset to
// reach.

#include "go_asm.h"
#include "textflag.h"

// func runNEON(number int, dst, src unsafe.Pointer, x uint64, from, to int) (done int)
TEXT ·runNEON(SB), NOSPLIT, $0-56
	MOVD number+0(FP), R8
	MOVD dst+8(FP), R0
	MOVD src+16(FP), R1
	MOVD x+24(FP), R2
	MOVD from+32(FP), R3
	MOVD to+40(FP), R4
	MOVD $kernels<>(SB), R9
	MOVD (R9)(R8<<3), R8
	CBZ  R8, none
	JMP  (R8)

none:
	MOVD R3, done+48(FP)
	RET

#define KERNEL(op, type, name) \
DATA kernels<>+(((type)*const_typeStride+(op))*8)(SB)/8, $name<>(SB) \
TEXT name<>(SB), NOSPLIT, $0-56

// Instructions with two operands, one, and none but the result: acc is also the first operand.
#define BINARY(bits, src, acc) WORD $(bits + (src)*0x10000 + (acc)*0x20 + (acc))
#define COMPARE(bits, a, b, out) WORD $(bits + (b)*0x10000 + (a)*0x20 + (out))
#define UNARY(bits, src, out) WORD $(bits + (src)*0x20 + (out))

#define FADD_S  0x4e20d400
#define FADD_D  0x4e60d400
#define FMUL_S  0x6e20dc00
#define FMUL_D  0x6e60dc00
#define FDIV_S  0x6e20fc00
#define FDIV_D  0x6e60fc00
#define FMIN_S  0x4ea0f400
#define FMIN_D  0x4ee0f400
#define FMAX_S  0x4e20f400
#define FMAX_D  0x4e60f400
#define FCMEQ_S 0x4e20e400
#define FCMEQ_D 0x4e60e400
#define ADD_B   0x4e208400
#define ADD_H   0x4e608400
#define ADD_S   0x4ea08400
#define ADD_D   0x4ee08400
#define MUL_B   0x4e209c00
#define MUL_H   0x4e609c00
#define MUL_S   0x4ea09c00
#define SMIN_B  0x4e206c00
#define SMIN_H  0x4e606c00
#define SMIN_S  0x4ea06c00
#define SMAX_B  0x4e206400
#define SMAX_H  0x4e606400
#define SMAX_S  0x4ea06400
#define UMIN_B  0x6e206c00
#define UMAX_B  0x6e206400
#define CMGT_D  0x4ee03400
#define CMHI_D  0x6ee03400
#define BIT     0x6ea01c00
#define AND     0x4e201c00
#define ORR     0x4ea01c00
#define EOR     0x6e201c00
#define FCVTL   0x0e217800
#define FCVTL2  0x4e217800
#define FCVTN   0x0e216800
#define FCVTN2  0x4e216800
#define SHLL    0x2e613800
#define SHLL2   0x6e613800
#define SHRN    0x0f108400
#define SHRN2   0x4f108400
#define USHR    0x6f300400
#define UMINV   0x6eb1a800

// How elements come from memory into four vectors and go there.
#define LOAD_RESULTS(p)  VLD1 (p), [V0.B16, V1.B16, V2.B16, V3.B16]
#define LOAD_SOURCE(p)   VLD1 (p), [V4.B16, V5.B16, V6.B16, V7.B16]
#define STORE(p)         VST1 [V0.B16, V1.B16, V2.B16, V3.B16], (p)
#define WIDENED(p, low, high, first) \
	VLD1 (p), [V16.B16, V17.B16] \
	UNARY(low, 16, first) \
	UNARY(high, 16, first+1) \
	UNARY(low, 17, first+2) \
	UNARY(high, 17, first+3)
#define HALF_RESULTS(p)  WIDENED(p, FCVTL, FCVTL2, 0)
#define HALF_SOURCE(p)   WIDENED(p, FCVTL, FCVTL2, 4)
#define BRAIN_RESULTS(p) WIDENED(p, SHLL, SHLL2, 0)
#define BRAIN_SOURCE(p)  WIDENED(p, SHLL, SHLL2, 4)
#define HALF_STORE(p) \
	UNARY(FCVTN, 0, 16) \
	UNARY(FCVTN2, 1, 16) \
	UNARY(FCVTN, 2, 17) \
	UNARY(FCVTN2, 3, 17) \
	VST1 [V16.B16, V17.B16], (p)

// BRAIN_STORE rounds to nearest, ties to even, in integer arithmetic. There is no NaN.
#define BRAIN_ROUND(v, scratch, narrow, out) \
	UNARY(USHR, v, scratch) \
	BINARY(AND, 25, scratch) \
	BINARY(ADD_S, v, scratch) \
	BINARY(ADD_S, 26, scratch) \
	UNARY(narrow, scratch, out)
#define BRAIN_STORE(p) \
	BRAIN_ROUND(0, 20, SHRN, 16) \
	BRAIN_ROUND(1, 21, SHRN2, 16) \
	BRAIN_ROUND(2, 22, SHRN, 17) \
	BRAIN_ROUND(3, 23, SHRN2, 17) \
	VST1 [V16.B16, V17.B16], (p)
#define BRAIN_CONSTANTS \
	MOVD $1, R8 \
	VDUP R8, V25.S4 \
	MOVD $0x7fff, R8 \
	VDUP R8, V26.S4

// What is done with a vector of a source and one of the results.
#define SIMPLE(bits, src, acc) BINARY(bits, src, acc)
#define LESSER(greater, src, acc) \
	COMPARE(greater, acc, src, 16) \
	COMPARE(BIT, src, 16, acc)
#define GREATER(greater, src, acc) \
	COMPARE(greater, src, acc, 16) \
	COMPARE(BIT, src, 16, acc)

// NUMBERS jumps to stop unless all results equal themselves, as all but NaNs do.
#define NUMBERS(equal) \
	COMPARE(equal, 0, 0, 20) \
	COMPARE(equal, 1, 1, 21) \
	COMPARE(equal, 2, 2, 22) \
	COMPARE(equal, 3, 3, 23) \
	BINARY(AND, 21, 20) \
	BINARY(AND, 23, 22) \
	BINARY(AND, 22, 20) \
	UNARY(UMINV, 20, 20) \
	FMOVS F20, R8 \
	CBZW R8, stop
#define ANYTHING(equal)

// REDUCE walks over the sources with the results of four vectors, which take step bytes of memory.
#define REDUCE(op, type, name, loadResults, loadSource, combine, bits, check, equal, store, step) \
KERNEL(op, type, name) \
	BRAIN_CONSTANTS \
four: \
	ADD $step, R3, R5 \
	CMP R4, R5 \
	BGT stop \
	MOVD (R1), R6 \
	ADD R3, R6, R6 \
	loadResults(R6) \
	MOVD $1, R7 \
source: \
	MOVD (R1)(R7<<3), R6 \
	ADD R3, R6, R6 \
	loadSource(R6) \
	combine(bits, 4, 0) \
	combine(bits, 5, 1) \
	combine(bits, 6, 2) \
	combine(bits, 7, 3) \
	ADD $1, R7 \
	CMP R2, R7 \
	BLT source \
	check(equal) \
	ADD R3, R0, R6 \
	store(R6) \
	MOVD R5, R3 \
	JMP four \
stop: \
	MOVD R3, done+48(FP) \
	RET

// MAP writes what apply makes of each element. Four vectors are count bytes.
#define MAP(load, apply, bits, check, equal, store, count) \
	BRAIN_CONSTANTS \
four: \
	ADD $count, R3, R5 \
	CMP R4, R5 \
	BGT stop \
	ADD R3, R1, R6 \
	load(R6) \
	apply(bits, 24, 0) \
	apply(bits, 24, 1) \
	apply(bits, 24, 2) \
	apply(bits, 24, 3) \
	check(equal) \
	ADD R3, R0, R6 \
	store(R6) \
	MOVD R5, R3 \
	JMP four \
stop: \
	MOVD R3, done+48(FP) \
	RET

#define REDUCE_F32(op, name, bits)  REDUCE(op, const_F32, name, LOAD_RESULTS, LOAD_SOURCE, SIMPLE, bits, NUMBERS, FCMEQ_S, STORE, 64)
#define REDUCE_F64(op, name, bits)  REDUCE(op, const_F64, name, LOAD_RESULTS, LOAD_SOURCE, SIMPLE, bits, NUMBERS, FCMEQ_D, STORE, 64)
#define REDUCE_F16(op, name, bits)  REDUCE(op, const_F16, name, HALF_RESULTS, HALF_SOURCE, SIMPLE, bits, NUMBERS, FCMEQ_S, HALF_STORE, 32)
#define REDUCE_BF16(op, name, bits) REDUCE(op, const_BF16, name, BRAIN_RESULTS, BRAIN_SOURCE, SIMPLE, bits, NUMBERS, FCMEQ_S, BRAIN_STORE, 32)
#define REDUCE_INT(op, type, name, combine, bits) REDUCE(op, type, name, LOAD_RESULTS, LOAD_SOURCE, combine, bits, ANYTHING, , STORE, 64)

#define MAP_F32(op, name, bits) \
KERNEL(op, const_F32, name) \
	VDUP R2, V24.S4 \
	MAP(LOAD_RESULTS, SIMPLE, bits, NUMBERS, FCMEQ_S, STORE, 64)
#define MAP_F64(op, name, bits) \
KERNEL(op, const_F64, name) \
	VDUP R2, V24.D2 \
	MAP(LOAD_RESULTS, SIMPLE, bits, NUMBERS, FCMEQ_D, STORE, 64)
#define MAP_F16(op, name, bits) \
KERNEL(op, const_F16, name) \
	VDUP R2, V24.S4 \
	MAP(HALF_RESULTS, SIMPLE, bits, NUMBERS, FCMEQ_S, HALF_STORE, 32)
#define MAP_BF16(op, name, bits) \
KERNEL(op, const_BF16, name) \
	VDUP R2, V24.S4 \
	MAP(BRAIN_RESULTS, SIMPLE, bits, NUMBERS, FCMEQ_S, BRAIN_STORE, 32)

// The table is filled in the order of types, and of operations for each. It has no products of 64-bit integers, for
// which there is no instruction.

REDUCE_F32(const_Sum, sumF32, FADD_S)
REDUCE_F32(const_Min, minF32, FMIN_S)
REDUCE_F32(const_Max, maxF32, FMAX_S)
REDUCE_F32(const_Prod, prodF32, FMUL_S)
MAP_F32(const_opScale, mulF32, FMUL_S)
MAP_F32(const_opDivide, divF32, FDIV_S)

REDUCE_F64(const_Sum, sumF64, FADD_D)
REDUCE_F64(const_Min, minF64, FMIN_D)
REDUCE_F64(const_Max, maxF64, FMAX_D)
REDUCE_F64(const_Prod, prodF64, FMUL_D)
MAP_F64(const_opScale, mulF64, FMUL_D)
MAP_F64(const_opDivide, divF64, FDIV_D)

REDUCE_F16(const_Sum, sumF16, FADD_S)
REDUCE_F16(const_Min, minF16, FMIN_S)
REDUCE_F16(const_Max, maxF16, FMAX_S)
REDUCE_F16(const_Prod, prodF16, FMUL_S)
MAP_F16(const_opScale, mulF16, FMUL_S)
MAP_F16(const_opDivide, divF16, FDIV_S)

REDUCE_BF16(const_Sum, sumBF16, FADD_S)
REDUCE_BF16(const_Min, minBF16, FMIN_S)
REDUCE_BF16(const_Max, maxBF16, FMAX_S)
REDUCE_BF16(const_Prod, prodBF16, FMUL_S)
MAP_BF16(const_opScale, mulBF16, FMUL_S)
MAP_BF16(const_opDivide, divBF16, FDIV_S)

REDUCE_INT(const_Sum, const_I8, sumI8, SIMPLE, ADD_B)
REDUCE_INT(const_Min, const_I8, minI8, SIMPLE, SMIN_B)
REDUCE_INT(const_Max, const_I8, maxI8, SIMPLE, SMAX_B)
REDUCE_INT(const_Prod, const_I8, prodI8, SIMPLE, MUL_B)
REDUCE_INT(const_BAnd, const_I8, and, SIMPLE, AND)
REDUCE_INT(const_BOr, const_I8, or, SIMPLE, ORR)
REDUCE_INT(const_BXor, const_I8, xor, SIMPLE, EOR)
REDUCE_INT(const_Min, const_U8, minU8, SIMPLE, UMIN_B)
REDUCE_INT(const_Max, const_U8, maxU8, SIMPLE, UMAX_B)
REDUCE_INT(const_Sum, const_I16, sumI16, SIMPLE, ADD_H)
REDUCE_INT(const_Min, const_I16, minI16, SIMPLE, SMIN_H)
REDUCE_INT(const_Max, const_I16, maxI16, SIMPLE, SMAX_H)
REDUCE_INT(const_Prod, const_I16, prodI16, SIMPLE, MUL_H)
REDUCE_INT(const_Sum, const_I32, sumI32, SIMPLE, ADD_S)
REDUCE_INT(const_Min, const_I32, minI32, SIMPLE, SMIN_S)
REDUCE_INT(const_Max, const_I32, maxI32, SIMPLE, SMAX_S)
REDUCE_INT(const_Prod, const_I32, prodI32, SIMPLE, MUL_S)
REDUCE_INT(const_Sum, const_I64, sumI64, SIMPLE, ADD_D)
REDUCE_INT(const_Min, const_I64, minI64, LESSER, CMGT_D)
REDUCE_INT(const_Max, const_I64, maxI64, GREATER, CMGT_D)
REDUCE_INT(const_Min, const_U64, minU64, LESSER, CMHI_D)
REDUCE_INT(const_Max, const_U64, maxU64, GREATER, CMHI_D)

GLOBL kernels<>(SB), RODATA, $(const_kernels*8)
