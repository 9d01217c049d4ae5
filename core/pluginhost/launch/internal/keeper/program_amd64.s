#include "textflag.h"

// The keeper, see doc.go: the whole code of its process. It is copied out of here, so it
// references only itself and the data of image.go.
//
// R15 arguments and environment, R14 data, R13 the plugin's number, R12 scratch:
//   0 siginfo (128), 128 original mask, 136 a number, 144 a mask, 512 text (4096)
// BX, BP, R8 and R9 are short-lived. The kernel changes AX, CX and R11 only.

#define DATA 0x100000b0
#define SCRATCH 4608

#define CALL(number) MOVL $number, AX; SYSCALL

#define WRITE 1
#define CLOSE 3
#define SIGACTION 13
#define SIGPROCMASK 14
#define NANOSLEEP 35
#define SETITIMER 38
#define GETPID 39
#define CLONE 56
#define EXECVE 59
#define WAIT4 61
#define KILL 62
#define FCNTL 72
#define SETPGID 109
#define SIGTIMEDWAIT 128
#define PRCTL 157
#define EXIT_GROUP 231
#define WAITID 247
#define OPENAT 257
#define CLOSE_RANGE 436

// func program() unsafe.Pointer
TEXT ·program(SB), NOSPLIT, $0-8
	LEAQ keeper<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

TEXT keeper<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ SP, R15
	SUBQ $SCRATCH, SP
	MOVQ SP, R12
	MOVL $DATA, R14

	// A descendant that loses its parent becomes a child of this process.
	MOVL $36, DI // PR_SET_CHILD_SUBREAPER
	MOVL $1, SI
	CALL(PRCTL)
	MOVL 4(R14), DI
	CALL(CLOSE)
	// If the host ignores SIGCHLD, the keeper inherits that and could not wait for its children.
	MOVL $17, DI // SIGCHLD
	LEAQ 72(R14), SI
	XORL DX, DX
	MOVL $8, R10
	CALL(SIGACTION)
	MOVL $2, DI // SIG_SETMASK
	LEAQ 8(R14), SI
	LEAQ 128(R12), DX
	MOVL $8, R10
	CALL(SIGPROCMASK)

	MOVL $17, DI // SIGCHLD
	XORL SI, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	CALL(CLONE)
	TESTQ AX, AX
	JZ child
	MOVQ AX, R13
	MOVL AX, 136(R12)
	MOVL 0(R14), DI
	LEAQ 136(R12), SI
	MOVL $4, DX
	CALL(WRITE)
	MOVL $127, DI
	TESTQ R13, R13
	JLT exit

	// Other processes of the user may not inspect or change this one.
	MOVL $4, DI // PR_SET_DUMPABLE
	XORL SI, SI
	CALL(PRCTL)
	MOVL $15, DI // PR_SET_NAME
	LEAQ 104(R14), SI
	CALL(PRCTL)
	// Close all descriptors: those between the plugin and the host must end with either of the two.
	XORL DI, DI
	MOVL $-1, SI
	XORL DX, DX
	CALL(CLOSE_RANGE)
	TESTQ AX, AX
	JZ wait
	XORL BX, BX // a kernel before 5.9
closing:
	MOVL BX, DI
	CALL(CLOSE)
	INCL BX
	CMPL BX, $1024
	JLT closing

wait:
	// Notice the end of the plugin without collecting it, so that its number is not reused.
	XORL DI, DI // P_ALL
	XORL SI, SI
	MOVQ R12, DX
	MOVL $0x1000005, R10 // WEXITED|WNOHANG|WNOWAIT
	XORL R8, R8
	CALL(WAITID)
	TESTQ AX, AX
	JNZ sleep
	MOVL 16(R12), DI // si_pid
	TESTL DI, DI
	JZ sleep
	CMPL DI, R13
	JEQ end
	XORL SI, SI
	MOVL $1, DX // WNOHANG
	XORL R10, R10
	CALL(WAIT4)
	JMP wait
sleep:
	LEAQ 16(R14), DI
	XORL SI, SI
	XORL DX, DX
	MOVL $8, R10
	CALL(SIGTIMEDWAIT)
	CMPQ AX, $15 // SIGTERM: the host is gone
	JEQ orphaned
	CMPQ AX, $3 // SIGQUIT: the host orders the end
	JEQ end
	CMPQ AX, $14 // SIGALRM: the grace period is over
	JEQ end
	JMP wait
orphaned:
	MOVL R13, DI
	MOVL $15, SI
	CALL(KILL)
	XORL DI, DI // ITIMER_REAL
	LEAQ 24(R14), SI
	XORL DX, DX
	CALL(SETITIMER)
	JMP wait

end:
	MOVL R13, DI
	NEGL DI
	MOVL $9, SI
	CALL(KILL) // the group, whose number cannot be reused yet
	MOVL R13, DI
	MOVL $9, SI
	CALL(KILL)
	MOVL $0x7f00, 136(R12)
	MOVL R13, DI
	LEAQ 136(R12), SI
	XORL DX, DX
	XORL R10, R10
	CALL(WAIT4)

sweep:
	// Kill the present children; their children become children next.
	MOVL $-100, DI // AT_FDCWD
	LEAQ 120(R14), SI
	XORL DX, DX
	XORL R10, R10
	CALL(OPENAT)
	TESTQ AX, AX
	JLT over
	MOVQ AX, BX
	XORL BP, BP
read:
	MOVQ BX, DI
	LEAQ 512(R12), SI
	MOVL $4096, DX
	CALL(0) // read
	CMPQ AX, $0
	JLE reap
	LEAQ 512(R12), R8
	LEAQ (R8)(AX*1), R9
digit:
	CMPQ R8, R9
	JGE read
	MOVBLZX (R8), AX
	INCQ R8
	SUBL $48, AX
	CMPL AX, $9
	JHI number
	IMULL $10, BP
	ADDL AX, BP
	JMP digit
number:
	TESTL BP, BP
	JZ digit
	MOVL BP, DI
	MOVL $9, SI
	CALL(KILL)
	XORL BP, BP
	JMP digit
reap:
	MOVQ BX, DI
	CALL(CLOSE)
reaping:
	MOVQ $-1, DI
	XORL SI, SI
	MOVL $1, DX // WNOHANG
	XORL R10, R10
	CALL(WAIT4)
	CMPQ AX, $0
	JGT reaping
	JLT over // no child is left
	LEAQ 56(R14), DI
	XORL SI, SI
	CALL(NANOSLEEP)
	JMP sweep

over:
	// End as the plugin ended.
	MOVL 136(R12), DI
	MOVL DI, BX
	SHRL $8, DI
	ANDL $255, DI
	ANDL $127, BX
	JZ exit
	MOVL BX, CX
	DECL CX
	MOVL $1, AX
	SHLQ CX, AX
	NOTQ AX
	MOVQ AX, 144(R12)
	MOVL $2, DI // SIG_SETMASK: all but this signal
	LEAQ 144(R12), SI
	XORL DX, DX
	MOVL $8, R10
	CALL(SIGPROCMASK)
	CALL(GETPID)
	MOVL AX, DI
	MOVL BX, SI
	CALL(KILL)
	LEAL 128(BX), DI // if the host ignores that signal
exit:
	CALL(EXIT_GROUP)
	JMP exit

child:
	XORL DI, DI
	XORL SI, SI
	CALL(SETPGID)
	MOVL $1, DI // PR_SET_PDEATHSIG
	MOVL $9, SI
	CALL(PRCTL)
	MOVL $2, DI // SIG_SETMASK
	LEAQ 128(R12), SI
	XORL DX, DX
	MOVL $8, R10
	CALL(SIGPROCMASK)
	MOVL 0(R14), DI
	MOVL $2, SI // F_SETFD
	MOVL $1, DX // FD_CLOEXEC
	CALL(FCNTL)
	// Give up rights, step by step: number and six arguments each.
	MOVQ 152(R14), BX
	XORL BP, BP
step:
	CMPQ BX, 160(R14)
	JEQ run
	ADDL $0x1000, BP // the number of the step, for the report
	MOVQ 0(BX), AX
	MOVQ 8(BX), DI
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 32(BX), R10
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	SYSCALL
	ADDQ $56, BX
	TESTQ AX, AX
	JGE step
	SUBL BP, AX
	JMP failed
run:
	MOVQ 0(R15), AX
	MOVQ 8(R15), DI
	LEAQ 16(R15), SI
	LEAQ 16(R15)(AX*8), DX
	CALL(EXECVE)
failed:
	MOVL AX, 136(R12)
	MOVL 0(R14), DI
	LEAQ 136(R12), SI
	MOVL $4, DX
	CALL(WRITE)
	MOVL $127, DI
	JMP exit

	PCALIGN $16
	QUAD $0x646e652e7065656b
