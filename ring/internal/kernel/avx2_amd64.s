#define V0 Y0
#define V1 Y1
#define V2 Y2
#define V3 Y3
#define V4 Y4
#define HALF X8
#define BY Y9
#define BYTES 32
#define ONE Y10
#define BIAS Y11
#define QUIET Y12

#define READ(move, mem, v) VMOVDQU mem, v
#define WRITE(move, v, mem) VMOVDQU v, mem
#define REST(log2, vector)
#define ONLY_AVX512(kernel)

#define AND VPAND
#define OR VPOR
#define XOR VPXOR

// VMINPS takes src if the two are equal or one of them is NaN. What is missing is -0 if one of two
// zeros is that, and acc if it is NaN. For VMAXPS +0 is missing: the bits that src may have and acc
// has not are cleared.
#define MIN_PS(by, src, acc) LESSER(VCMPPS, VMINPS, src, acc)
#define MIN_PD(by, src, acc) LESSER(VCMPPD, VMINPD, src, acc)
#define MAX_PS(by, src, acc) GREATER(VCMPPS, VMAXPS, src, acc)
#define MAX_PD(by, src, acc) GREATER(VCMPPD, VMAXPD, src, acc)
#define LESSER(compare, min, src, acc) \
	compare $0, src, acc, Y5 \
	min src, acc, Y6 \
	VANDPS acc, Y5, Y5 \
	VORPS Y5, Y6, Y6 \
	KEEP_NAN(compare, acc)
#define GREATER(compare, max, src, acc) \
	compare $0, src, acc, Y5 \
	max src, acc, Y6 \
	VANDNPS Y5, acc, Y5 \
	VANDNPS Y6, Y5, Y6 \
	KEEP_NAN(compare, acc)
#define KEEP_NAN(compare, acc) \
	compare $3, acc, acc, Y7 \
	VBLENDVPS Y7, acc, Y6, acc

#define BRAIN_STORE(write, move, v, mem) \
	VPSRLD $16, v, Y5 \
	VPAND ONE, Y5, Y6 \
	VPADDD v, Y6, Y6 \
	VPADDD BIAS, Y6, Y6 \
	VPSRLD $16, Y6, Y6 \
	VCMPPS $3, v, v, Y7 \
	VPOR QUIET, Y5, Y5 \
	VBLENDVPS Y7, Y5, Y6, Y6 \
	VPACKUSDW Y6, Y6, Y6 \
	VPERMQ $8, Y6, Y6 \
	write(move, X6, mem)

#include "kernels_amd64.h"

RUN(·runAVX2)
