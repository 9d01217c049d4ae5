// The body of the kernels that fold; fold.go has the method. A file for each width of the registers
// includes this one. It defines FUNC, the name of the function; W, the bytes of a
// register; the registers A0 to A3, T0 to T3, D0 to D3, FOUR and ONE; and the instructions LOAD,
// SAVE, STREAM, XOR, SPREAD and FOLD(k, data, acc, tmp). The last makes acc the fold of acc by the
// factors k, plus data. T0 is register 4.

#define LOADS(R0, R1, R2, R3) \
	LOAD (0*W)(SI), R0; \
	LOAD (1*W)(SI), R1; \
	LOAD (2*W)(SI), R2; \
	LOAD (3*W)(SI), R3

#define SAVES(OP, R0, R1, R2, R3) \
	OP R0, (0*W)(DI); \
	OP R1, (1*W)(DI); \
	OP R2, (2*W)(DI); \
	OP R3, (3*W)(DI)

#define FOLDS \
	FOLD(FOUR, D0, A0, T0); \
	FOLD(FOUR, D1, A1, T1); \
	FOLD(FOUR, D2, A2, T2); \
	FOLD(FOUR, D3, A3, T3)

// AHEAD has a part of the source fetched: what the processor guesses by itself ends with each page.
// Fetching what is no memory does nothing.
#define AHEAD \
	PREFETCHNTA (512+0*W)(SI); \
	PREFETCHNTA (512+1*W)(SI); \
	PREFETCHNTA (512+2*W)(SI); \
	PREFETCHNTA (512+3*W)(SI)

#define SKIP(n) \
	ADDQ $(n), SI; \
	ADDQ $(n), DI; \
	SUBQ $(n), CX

// func(state uint32, dst, src *byte, n int, k *folds, stream bool) uint32
TEXT FUNC(SB), NOSPLIT, $64-52
	MOVL state+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), DX
	SPREAD 0(DX), FOUR
	SPREAD 16(DX), ONE
	MOVQ DI, BX
	LOADS(A0, A1, A2, A3)
	TESTQ BX, BX
	JEQ  begin
	SAVES(SAVE, A0, A1, A2, A3)

begin:
	VMOVD AX, X4
	XOR  T0, A0, A0
	SKIP(4*W)
	SUBQ $(4*W), CX
	JLT  few
	TESTQ BX, BX
	JEQ  sum
	CMPB stream+40(FP), $0
	JNE  stream

copy:
	LOADS(D0, D1, D2, D3)
	SAVES(SAVE, D0, D1, D2, D3)
	FOLDS
	SKIP(4*W)
	JGE  copy
	JMP  few

stream:
	AHEAD
	LOADS(D0, D1, D2, D3)
	SAVES(STREAM, D0, D1, D2, D3)
	FOLDS
	SKIP(4*W)
	JGE  stream
	JMP  few

sum:
	LOADS(D0, D1, D2, D3)
	FOLDS
	SKIP(4*W)
	JGE  sum

	// The four registers become one, to which the rest is added.
few:
	FOLD(ONE, A1, A0, T0)
	FOLD(ONE, A2, A0, T0)
	FOLD(ONE, A3, A0, T0)
	ADDQ $(3*W), CX
	JLT  end

one:
	LOAD (SI), D0
	TESTQ BX, BX
	JEQ  add
	SAVE D0, (DI)

add:
	FOLD(ONE, D0, A0, T0)
	SKIP(W)
	JGE  one

end:
	SAVE A0, last-64(SP)
	VZEROUPPER
	LEAQ last-64(SP), SI
	MOVL $W, CX
	XORL AX, AX

reduce:
	CRC32Q (SI), AX
	ADDQ $8, SI
	SUBL $8, CX
	JNE  reduce
	MOVL AX, ret+48(FP)
	RET
