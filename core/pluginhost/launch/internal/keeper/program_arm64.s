#include "textflag.h"

// The keeper, see doc.go: the whole code of its process. It is copied out of here, so it
// references only itself and the data of image.go. It is program_amd64.s, step by step.
//
// R22 arguments and environment, R21 data, R20 the plugin's number, R19 scratch:
//   0 siginfo (128), 128 original mask, 136 a number, 144 a mask, 512 text (4096)
// R23 to R26 are short-lived. The kernel changes R0 only.

#define DATA 0x100000b0
#define SCRATCH 4608

#define CALL(number) MOVD $number, R8; SVC

#define FCNTL 25
#define OPENAT 56
#define CLOSE 57
#define READ 63
#define WRITE 64
#define EXIT_GROUP 94
#define WAITID 95
#define NANOSLEEP 101
#define SETITIMER 103
#define KILL 129
#define SIGACTION 134
#define SIGPROCMASK 135
#define SIGTIMEDWAIT 137
#define SETPGID 154
#define PRCTL 167
#define GETPID 172
#define CLONE 220
#define EXECVE 221
#define WAIT4 260
#define CLOSE_RANGE 436

// func program() unsafe.Pointer
TEXT ·program(SB), NOSPLIT, $0-8
	MOVD $keeper<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

TEXT keeper<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVD RSP, R22
	SUB $SCRATCH, RSP, R19
	MOVD R19, RSP
	MOVD $DATA, R21

	// A descendant that loses its parent becomes a child of this process.
	MOVD $36, R0 // PR_SET_CHILD_SUBREAPER
	MOVD $1, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	CALL(PRCTL)
	MOVW 4(R21), R0
	CALL(CLOSE)
	// If the host ignores SIGCHLD, the keeper inherits that and could not wait for its children.
	MOVD $17, R0 // SIGCHLD
	ADD $72, R21, R1
	MOVD $0, R2
	MOVD $8, R3
	CALL(SIGACTION)
	MOVD $2, R0 // SIG_SETMASK
	ADD $8, R21, R1
	ADD $128, R19, R2
	MOVD $8, R3
	CALL(SIGPROCMASK)

	MOVD $17, R0 // SIGCHLD
	MOVD $0, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	CALL(CLONE)
	CBZ R0, child
	MOVD R0, R20
	MOVW R0, 136(R19)
	MOVW 0(R21), R0
	ADD $136, R19, R1
	MOVD $4, R2
	CALL(WRITE)
	MOVD $127, R0
	CMP $0, R20
	BLT exit

	// Other processes of the user may not inspect or change this one.
	MOVD $4, R0 // PR_SET_DUMPABLE
	MOVD $0, R1
	CALL(PRCTL)
	MOVD $15, R0 // PR_SET_NAME
	ADD $104, R21, R1
	CALL(PRCTL)
	// Close all descriptors: those between the plugin and the host must end with either of the two.
	MOVD $0, R0
	MOVD $0xffffffff, R1
	MOVD $0, R2
	CALL(CLOSE_RANGE)
	CBZ R0, wait
	MOVD $0, R23 // a kernel before 5.9
closing:
	MOVD R23, R0
	CALL(CLOSE)
	ADD $1, R23, R23
	CMP $1024, R23
	BLT closing

wait:
	// Notice the end of the plugin without collecting it, so that its number is not reused.
	MOVD $0, R0 // P_ALL
	MOVD $0, R1
	MOVD R19, R2
	MOVD $0x1000005, R3 // WEXITED|WNOHANG|WNOWAIT
	MOVD $0, R4
	CALL(WAITID)
	CBNZ R0, sleep
	MOVW 16(R19), R0 // si_pid
	CBZ R0, sleep
	CMP R20, R0
	BEQ end
	MOVD $0, R1
	MOVD $1, R2 // WNOHANG
	MOVD $0, R3
	CALL(WAIT4)
	B wait
sleep:
	ADD $16, R21, R0
	MOVD $0, R1
	MOVD $0, R2
	MOVD $8, R3
	CALL(SIGTIMEDWAIT)
	CMP $15, R0 // SIGTERM: the host is gone
	BEQ orphaned
	CMP $3, R0 // SIGQUIT: the host orders the end
	BEQ end
	CMP $14, R0 // SIGALRM: the grace period is over
	BEQ end
	B wait
orphaned:
	MOVD R20, R0
	MOVD $15, R1
	CALL(KILL)
	MOVD $0, R0 // ITIMER_REAL
	ADD $24, R21, R1
	MOVD $0, R2
	CALL(SETITIMER)
	B wait

end:
	NEG R20, R0
	MOVD $9, R1
	CALL(KILL) // the group, whose number cannot be reused yet
	MOVD R20, R0
	MOVD $9, R1
	CALL(KILL)
	MOVD $0x7f00, R0
	MOVW R0, 136(R19)
	MOVD R20, R0
	ADD $136, R19, R1
	MOVD $0, R2
	MOVD $0, R3
	CALL(WAIT4)

sweep:
	// Kill the present children; their children become children next.
	MOVD $-100, R0 // AT_FDCWD
	ADD $120, R21, R1
	MOVD $0, R2
	MOVD $0, R3
	CALL(OPENAT)
	CMP $0, R0
	BLT over
	MOVD R0, R23
	MOVD $0, R24
read:
	MOVD R23, R0
	ADD $512, R19, R1
	MOVD $4096, R2
	CALL(READ)
	CMP $0, R0
	BLE reap
	ADD $512, R19, R25
	ADD R0, R25, R26
digit:
	CMP R26, R25
	BGE read
	MOVBU (R25), R0
	ADD $1, R25, R25
	SUBW $48, R0, R0
	CMPW $9, R0
	BHI number
	MOVD $10, R1
	MUL R1, R24, R24
	ADD R0, R24, R24
	B digit
number:
	CBZ R24, digit
	MOVD R24, R0
	MOVD $9, R1
	CALL(KILL)
	MOVD $0, R24
	B digit
reap:
	MOVD R23, R0
	CALL(CLOSE)
reaping:
	MOVD $-1, R0
	MOVD $0, R1
	MOVD $1, R2 // WNOHANG
	MOVD $0, R3
	CALL(WAIT4)
	CMP $0, R0
	BGT reaping
	BLT over // no child is left
	ADD $56, R21, R0
	MOVD $0, R1
	CALL(NANOSLEEP)
	B sweep

over:
	// End as the plugin ended.
	MOVWU 136(R19), R0
	AND $127, R0, R23
	LSR $8, R0, R0
	AND $255, R0, R0
	CBZ R23, exit
	SUB $1, R23, R1
	MOVD $1, R2
	LSL R1, R2, R2
	MVN R2, R2
	MOVD R2, 144(R19)
	MOVD $2, R0 // SIG_SETMASK: all but this signal
	ADD $144, R19, R1
	MOVD $0, R2
	MOVD $8, R3
	CALL(SIGPROCMASK)
	CALL(GETPID)
	MOVD R23, R1
	CALL(KILL)
	ADD $128, R23, R0 // if the host ignores that signal
exit:
	CALL(EXIT_GROUP)
	B exit

child:
	MOVD $0, R0
	MOVD $0, R1
	CALL(SETPGID)
	MOVD $1, R0 // PR_SET_PDEATHSIG
	MOVD $9, R1
	CALL(PRCTL)
	MOVD $2, R0 // SIG_SETMASK
	ADD $128, R19, R1
	MOVD $0, R2
	MOVD $8, R3
	CALL(SIGPROCMASK)
	MOVW 0(R21), R0
	MOVD $2, R1 // F_SETFD
	MOVD $1, R2 // FD_CLOEXEC
	CALL(FCNTL)
	// Give up rights, step by step: number and six arguments each.
	MOVD 152(R21), R23
	MOVD $0, R24
step:
	MOVD 160(R21), R0
	CMP R0, R23
	BEQ run
	ADD $0x1000, R24, R24 // the number of the step, for the report
	MOVD 0(R23), R8
	MOVD 8(R23), R0
	MOVD 16(R23), R1
	MOVD 24(R23), R2
	MOVD 32(R23), R3
	MOVD 40(R23), R4
	MOVD 48(R23), R5
	SVC
	ADD $56, R23, R23
	CMP $0, R0
	BGE step
	SUB R24, R0, R0
	B failed
run:
	MOVD 0(R22), R3
	MOVD 8(R22), R0
	ADD $16, R22, R1
	ADD R3<<3, R1, R2
	CALL(EXECVE)
failed:
	MOVW R0, 136(R19)
	MOVW 0(R21), R0
	ADD $136, R19, R1
	MOVD $4, R2
	CALL(WRITE)
	MOVD $127, R0
	B exit

	WORD $0x7065656b
	WORD $0x646e652e
