#include "textflag.h"

// AVX2 and VPCLMULQDQ.
#define FUNC ·fold256
#define W 32
#define A0 Y0
#define A1 Y1
#define A2 Y2
#define A3 Y3
#define T0 Y4
#define T1 Y5
#define T2 Y6
#define T3 Y7
#define D0 Y8
#define D1 Y9
#define D2 Y10
#define D3 Y11
#define FOUR Y12
#define ONE Y13
#define LOAD VMOVDQU
#define SAVE VMOVDQU
#define STREAM VMOVNTDQ
#define XOR VPXOR
#define SPREAD VBROADCASTI128
#define FOLD(k, data, acc, tmp) \
	VPCLMULQDQ $0x00, k, acc, tmp; \
	VPCLMULQDQ $0x11, k, acc, acc; \
	VPXOR data, tmp, tmp; \
	VPXOR tmp, acc, acc
#include "fold_amd64.h"
