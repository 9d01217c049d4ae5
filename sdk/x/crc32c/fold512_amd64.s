#include "textflag.h"

// AVX-512 and VPCLMULQDQ.
#define FUNC ·fold512
#define W 64
#define A0 Z0
#define A1 Z1
#define A2 Z2
#define A3 Z3
#define T0 Z4
#define T1 Z5
#define T2 Z6
#define T3 Z7
#define D0 Z8
#define D1 Z9
#define D2 Z10
#define D3 Z11
#define FOUR Z12
#define ONE Z13
#define LOAD VMOVDQU64
#define SAVE VMOVDQU64
#define STREAM VMOVNTDQ
#define XOR VPXORQ
#define SPREAD VBROADCASTI32X4
#define FOLD(k, data, acc, tmp) \
	VPCLMULQDQ $0x00, k, acc, tmp; \
	VPCLMULQDQ $0x11, k, acc, acc; \
	VPTERNLOGQ $0x96, data, tmp, acc
#include "fold_amd64.h"
