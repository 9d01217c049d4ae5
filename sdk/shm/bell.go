package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bell wakes the consumer of a ring. Ring may come at any time and more than once; a Wait
// may return early.
type Bell interface {
	// Ring wakes the waiter of word, the ring's flag, which the caller has set to 0. It
	// does not block.
	Ring(word *atomic.Uint32) error
	// Wait sleeps while word is 1, until a Ring or the end of the context.
	Wait(ctx context.Context, word *atomic.Uint32) error
	// Close frees what the bell holds; who waits returns with an error.
	Close() error
}

// EventBell is a Bell over an eventfd: waiting costs a goroutine, no thread. Sleeping on the
// ring's word itself, with futex(2), wakes sooner where nothing else is to do, but a
// goroutine that sleeps in a system call keeps its processor (the P of the Go scheduler)
// for up to 10 ms from those that could use it; see BenchmarkRing.
type EventBell struct{ file *os.File }

// NewEventBell makes an eventfd.
func NewEventBell() (*EventBell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &EventBell{os.NewFile(uintptr(fd), "eventfd")}, nil
}

// EventBellOf takes over an eventfd of another process.
func EventBellOf(fd int) (*EventBell, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("descriptor %d is not an eventfd: %w", fd, err)
	}
	return &EventBell{os.NewFile(uintptr(fd), "eventfd")}, nil
}

// FD returns the descriptor, which stays the bell's; -1 for a bell that is closed.
func (b *EventBell) FD() int {
	fd := -1
	// File.Fd would make every Wait hold a thread.
	if raw, err := b.file.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// Ring implements Bell. A counter that is full, which only a hostile reader brings about,
// is no error: the other side has been told often enough.
func (b *EventBell) Ring(*atomic.Uint32) error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	raw, err := b.file.SyscallConn()
	if err != nil {
		return err
	}
	var got error
	// Control does not wait, as Write would for a counter that is full.
	if err := raw.Control(func(fd uintptr) { _, got = unix.Write(int(fd), one[:]) }); err != nil {
		return err
	}
	if errors.Is(got, unix.EAGAIN) {
		return nil
	}
	return got
}

// Wait implements Bell.
func (b *EventBell) Wait(ctx context.Context, _ *atomic.Uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() != nil {
		if err := b.file.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		late := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = b.file.SetReadDeadline(time.Unix(1, 0))
			close(late)
		})
		defer func() {
			if !stop() {
				<-late
			}
		}()
	}
	var n [8]byte
	_, err := b.file.Read(n[:])
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Close implements Bell.
func (b *EventBell) Close() error { return b.file.Close() }
