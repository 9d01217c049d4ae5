#include "textflag.h"

// BEGIN loads the factors into Z28 (four), Z29 (one) and Z30 (lanes) from k, and the first four
// registers, with the state in the first 32 bits.
#define BEGIN(k) \
	VBROADCASTI32X4 0(k), Z28; \
	VBROADCASTI32X4 16(k), Z29; \
	VMOVDQU64 32(k), Z30; \
	VMOVDQU64 0(SI), Z0; \
	VMOVDQU64 64(SI), Z1; \
	VMOVDQU64 128(SI), Z2; \
	VMOVDQU64 192(SI), Z3; \
	VMOVD AX, X8

// FOLD makes acc the fold of acc by the factors k, plus data.
#define FOLD(k, data, acc, tmp) \
	VPCLMULQDQ $0x00, k, acc, tmp; \
	VPCLMULQDQ $0x11, k, acc, acc; \
	VPTERNLOGQ $0x96, data, tmp, acc

// JOIN folds four registers into Z3.
#define JOIN \
	FOLD(Z29, Z1, Z0, Z4); \
	FOLD(Z29, Z2, Z0, Z4); \
	FOLD(Z29, Z3, Z0, Z4); \
	VMOVDQA64 Z0, Z3

// END folds the four runs of Z3 into one and reduces that to the state in AX.
#define END \
	VPCLMULQDQ $0x00, Z30, Z3, Z4; \
	VPCLMULQDQ $0x11, Z30, Z3, Z5; \
	VPXORQ Z5, Z4, Z4; \
	VEXTRACTI32X4 $3, Z3, X6; \
	VEXTRACTI64X4 $1, Z4, Y5; \
	VPXORQ Y5, Y4, Y4; \
	VEXTRACTI32X4 $1, Y4, X5; \
	VPTERNLOGQ $0x96, X6, X5, X4; \
	VMOVQ X4, R8; \
	VPEXTRQ $1, X4, R9; \
	XORL AX, AX; \
	CRC32Q R8, AX; \
	CRC32Q R9, AX; \
	VZEROUPPER

// func foldSum(state uint32, src *byte, n int, k *folds) uint32
TEXT ·foldSum(SB), NOSPLIT, $0-36
	MOVL state+0(FP), AX
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX
	BEGIN(DX)
	VPXORQ Z8, Z0, Z0
	ADDQ $256, SI
	SUBQ $512, CX
	JLT  sumFew

sumFour:
	FOLD(Z28, 0(SI), Z0, Z4)
	FOLD(Z28, 64(SI), Z1, Z5)
	FOLD(Z28, 128(SI), Z2, Z6)
	FOLD(Z28, 192(SI), Z3, Z7)
	ADDQ $256, SI
	SUBQ $256, CX
	JGE  sumFour

sumFew:
	JOIN
	ADDQ $(256-64), CX
	JLT  sumEnd

sumOne:
	FOLD(Z29, 0(SI), Z3, Z4)
	ADDQ $64, SI
	SUBQ $64, CX
	JGE  sumOne

sumEnd:
	END
	MOVL AX, ret+32(FP)
	RET

#define STORE(op) \
	op Z0, 0(DI); \
	op Z1, 64(DI); \
	op Z2, 128(DI); \
	op Z3, 192(DI); \
	VPXORQ Z8, Z0, Z0

// MOVE loads four registers, stores them and adds them to the folds, so that the checksum is that of
// the stored bytes.
#define MOVE(op) \
	VMOVDQU64 0(SI), Z16; \
	VMOVDQU64 64(SI), Z17; \
	VMOVDQU64 128(SI), Z18; \
	VMOVDQU64 192(SI), Z19; \
	op Z16, 0(DI); \
	op Z17, 64(DI); \
	op Z18, 128(DI); \
	op Z19, 192(DI); \
	FOLD(Z28, Z16, Z0, Z4); \
	FOLD(Z28, Z17, Z1, Z5); \
	FOLD(Z28, Z18, Z2, Z6); \
	FOLD(Z28, Z19, Z3, Z7)

// func foldCopy(state uint32, dst, src *byte, n int, k *folds) uint32
TEXT ·foldCopy(SB), NOSPLIT, $0-44
	MOVL state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), DX
	BEGIN(DX)
	STORE(VMOVDQU64)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $512, CX
	JLT  copyFew

copyFour:
	MOVE(VMOVDQU64)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	JGE  copyFour

copyFew:
	JOIN
	ADDQ $(256-64), CX
	JLT  copyEnd

copyOne:
	VMOVDQU64 0(SI), Z16
	VMOVDQU64 Z16, 0(DI)
	FOLD(Z29, Z16, Z3, Z4)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JGE  copyOne

copyEnd:
	END
	MOVL AX, ret+40(FP)
	RET

// AHEAD has half a page of the source fetched: what the processor guesses by itself ends with
// each page. Fetching what is no memory does nothing.
#define AHEAD \
	PREFETCHNTA 2048(SI); \
	PREFETCHNTA 2112(SI); \
	PREFETCHNTA 2176(SI); \
	PREFETCHNTA 2240(SI)

// func foldStream(state uint32, dst, src *byte, n int, k *folds) uint32
TEXT ·foldStream(SB), NOSPLIT, $0-44
	MOVL state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), DX
	BEGIN(DX)
	STORE(VMOVNTDQ)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $512, CX
	JLT  streamFew

streamFour:
	AHEAD
	MOVE(VMOVNTDQ)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	JGE  streamFour

streamFew:
	JOIN
	ADDQ $(256-64), CX
	JLT  streamEnd

streamOne:
	VMOVDQU64 0(SI), Z16
	VMOVNTDQ Z16, 0(DI)
	FOLD(Z29, Z16, Z3, Z4)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JGE  streamOne

streamEnd:
	SFENCE
	END
	MOVL AX, ret+40(FP)
	RET
