#define V0 Z0
#define V1 Z1
#define V2 Z2
#define V3 Z3
#define V4 Z4
#define HALF Y8
#define BY Z9
#define BYTES 64
#define ONE Z10
#define BIAS Z11
#define QUIET Z12

#define READ(move, mem, v) VMOVDQU64 mem, v
#define WRITE(move, v, mem) VMOVDQU64 v, mem
#define READ_MASKED(move, mem, v) move.Z mem, K1, v
#define WRITE_MASKED(move, v, mem) move v, K1, mem
#define REST(log2, vector) \
	CMPQ BX, SI \
	JGE finish \
	MOVQ SI, R10 \
	SUBQ BX, R10 \
	SHRQ $log2, R10 \
	MOVQ $-1, R11 \
	BZHIQ R10, R11, R11 \
	KMOVQ R11, K1 \
	vector \
	MOVQ SI, BX \
finish:
#define ONLY_AVX512(kernel) kernel

#define AND VPANDQ
#define OR VPORQ
#define XOR VPXORQ

// As in avx2_amd64.s, with masks.
#define MIN_PS(by, src, acc) EXTREME(VCMPPS, VMINPS, VORPS, VBLENDMPS, src, acc)
#define MIN_PD(by, src, acc) EXTREME(VCMPPD, VMINPD, VORPD, VBLENDMPD, src, acc)
#define MAX_PS(by, src, acc) EXTREME(VCMPPS, VMAXPS, VANDPS, VBLENDMPS, src, acc)
#define MAX_PD(by, src, acc) EXTREME(VCMPPD, VMAXPD, VANDPD, VBLENDMPD, src, acc)
#define EXTREME(compare, extreme, tie, choose, src, acc) \
	compare $0, src, acc, K2 \
	extreme src, acc, Z6 \
	tie src, acc, K2, Z6 \
	compare $3, acc, acc, K3 \
	choose acc, Z6, K3, acc

#define BRAIN_STORE(write, move, v, mem) \
	VPSRLD $16, v, Z5 \
	VPANDD ONE, Z5, Z6 \
	VPADDD v, Z6, Z6 \
	VPADDD BIAS, Z6, Z6 \
	VPSRLD $16, Z6, Z6 \
	VCMPPS $3, v, v, K3 \
	VPORD QUIET, Z5, K3, Z6 \
	VPMOVDW Z6, HALF \
	write(move, HALF, mem)

#include "kernels_amd64.h"


RUN(·runAVX512)
