#include "textflag.h"

// MOVE moves 32 bytes of a run, and has the same bytes of the next call fetched.
#define MOVE(src, dst, crc) \
	PRFM 16320(src), PLDL1STRM; \
	LDP.P 16(src), (R10, R11); \
	LDP.P 16(src), (R12, R13); \
	STP.P (R10, R11), 16(dst); \
	STP.P (R12, R13), 16(dst); \
	CRC32CX R10, crc; \
	CRC32CX R11, crc; \
	CRC32CX R12, crc; \
	CRC32CX R13, crc

// func weave(state uint32, dst, src *byte, steps int) (a, b, c uint32)
TEXT ·weave(SB), NOSPLIT, $0-44
	MOVWU state+0(FP), R7
	MOVD  dst+8(FP), R0
	MOVD  src+16(FP), R1
	MOVD  steps+24(FP), R2
	ADD   R2<<5, R0, R3
	ADD   R2<<5, R1, R4
	ADD   R2<<5, R3, R5
	ADD   R2<<5, R4, R6
	MOVD  ZR, R8
	MOVD  ZR, R9

loop:
	MOVE(R1, R0, R7)
	MOVE(R4, R3, R8)
	MOVE(R6, R5, R9)
	SUBS $1, R2
	BNE  loop
	MOVW R7, a+32(FP)
	MOVW R8, b+36(FP)
	MOVW R9, c+40(FP)
	RET
