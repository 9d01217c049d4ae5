package shm

import (
	"context"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futexBell is an alternative to FileBell for BenchmarkRing. It sleeps on the ring's word.
type futexBell struct{ closed atomic.Bool }

// The operations of futex(2), from linux/futex.h. They lack FUTEX_PRIVATE_FLAG because two
// processes share the word.
const (
	futexWait = 0
	futexWake = 1
)

// futexSlice bounds one sleep, so that a waiter notices a lost wake-up and Close.
const futexSlice = 100 * time.Millisecond

// Ring implements Bell.
func (b *futexBell) Ring(word *atomic.Uint32) error { return wake(word) }

func wake(word *atomic.Uint32) error {
	_, _, e := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
	if e != 0 {
		return os.NewSyscallError("futex", e)
	}
	return nil
}

// Wait implements Bell.
func (b *futexBell) Wait(ctx context.Context, word *atomic.Uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			word.Store(0)
			_ = wake(word)
		})
		defer stop()
	}
	limit := unix.NsecToTimespec(int64(futexSlice))
	for !b.closed.Load() && ctx.Err() == nil {
		_, _, e := syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, 1, uintptr(unsafe.Pointer(&limit)), 0, 0)
		switch e {
		case 0, unix.EAGAIN:
			return nil
		case unix.EINTR, unix.ETIMEDOUT:
			if word.Load() == 0 {
				return nil
			}
		default:
			return os.NewSyscallError("futex", e)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return os.ErrClosed
}

// Close implements Bell; a waiter notices within 100 ms.
func (b *futexBell) Close() error {
	b.closed.Store(true)
	return nil
}
