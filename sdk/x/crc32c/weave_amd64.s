#include "textflag.h"

// The kernels that weave; weave.go has the method. R8 and R10 point into the first of the three
// runs of bytes in source and destination, and R9 is the distance to the next run.

#define AHEAD 16320

// THREE moves 16 bytes of each run. OP stores the registers whose bytes the checksums take.
#define THREE(at, OP) \
	MOVOU at(R8), X8; \
	MOVOU at(R8)(R9*1), X9; \
	MOVOU at(R8)(R9*2), X10; \
	OP X8, at(R10); \
	OP X9, at(R10)(R9*1); \
	OP X10, at(R10)(R9*2); \
	MOVQ X8, R11; \
	MOVQ X9, R12; \
	MOVQ X10, R13; \
	CRC32Q R11, AX; \
	CRC32Q R12, BX; \
	CRC32Q R13, DX; \
	PEXTRQ $1, X8, R11; \
	PEXTRQ $1, X9, R12; \
	PEXTRQ $1, X10, R13; \
	CRC32Q R11, AX; \
	CRC32Q R12, BX; \
	CRC32Q R13, DX

// RUNS moves 32 bytes of each run, and has the same bytes of the next call fetched: the
// processor does not guess that four places follow those of the call before.
#define RUNS(OP) \
	PREFETCHNTA AHEAD(R8); \
	PREFETCHNTA AHEAD(R8)(R9*1); \
	PREFETCHNTA AHEAD(R8)(R9*2); \
	THREE(0, OP); \
	THREE(16, OP); \
	ADDQ $32, R8; \
	ADDQ $32, R10; \
	DECQ CX

#define FOLD(data, acc, tmp) \
	MOVO acc, tmp; \
	PCLMULQDQ $0x00, X12, tmp; \
	PCLMULQDQ $0x11, X12, acc; \
	PXOR data, tmp; \
	PXOR tmp, acc

// FOLDS moves 64 bytes behind the runs, and folds them.
#define FOLDS(OP) \
	PREFETCHNTA AHEAD(SI); \
	MOVOU 0(SI), X8; \
	MOVOU 16(SI), X9; \
	MOVOU 32(SI), X10; \
	MOVOU 48(SI), X11; \
	OP X8, 0(DI); \
	OP X9, 16(DI); \
	OP X10, 32(DI); \
	OP X11, 48(DI); \
	FOLD(X8, X0, X4); \
	FOLD(X9, X1, X5); \
	FOLD(X10, X2, X6); \
	FOLD(X11, X3, X7); \
	ADDQ $64, SI; \
	ADDQ $64, DI

#define BEGIN \
	MOVQ dst+8(FP), R10; \
	MOVQ src+16(FP), R8; \
	MOVQ steps+24(FP), CX; \
	MOVQ CX, R9; \
	SHLQ $5, R9; \
	XORL BX, BX; \
	XORL DX, DX

#define END \
	MOVL AX, a+52(FP); \
	MOVL BX, b+56(FP); \
	MOVL DX, c+60(FP); \
	RET

// func weave(state uint32, dst, src *byte, steps int, k *factors, stream bool) (f, a, b, c uint32)
TEXT ·weave(SB), NOSPLIT, $0-64
	BEGIN
	MOVL state+0(FP), AX
	MOVL $0, f+48(FP)
	CMPB stream+40(FP), $0
	JNE  stream

copy:
	RUNS(MOVOU)
	JNE copy
	END

stream:
	RUNS(MOVNTO)
	JNE stream
	END

// func weaveFold(state uint32, dst, src *byte, steps int, k *factors, stream bool) (f, a, b, c uint32)
TEXT ·weaveFold(SB), NOSPLIT, $64-64
	BEGIN
	LEAQ  (R9)(R9*2), AX
	LEAQ  (R8)(AX*1), SI
	LEAQ  (R10)(AX*1), DI
	MOVQ  k+32(FP), AX
	MOVOU (AX), X12
	MOVL  state+0(FP), AX
	PXOR  X0, X0
	PXOR  X1, X1
	PXOR  X2, X2
	PXOR  X3, X3
	CMPB  stream+40(FP), $0
	JNE   stream

copy:
	FOLDS(MOVOU)
	RUNS(MOVOU)
	JNE copy
	JMP end

stream:
	FOLDS(MOVNTO)
	RUNS(MOVNTO)
	JNE stream

end:
	MOVOU X0, last-64(SP)
	MOVOU X1, last-48(SP)
	MOVOU X2, last-32(SP)
	MOVOU X3, last-16(SP)
	LEAQ  last-64(SP), SI
	MOVL  $64, CX
	XORL  R11, R11

reduce:
	CRC32Q (SI), R11
	ADDQ   $8, SI
	SUBL   $8, CX
	JNE    reduce
	MOVL   R11, f+48(FP)
	END

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
