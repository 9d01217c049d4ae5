package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bell wakes the consumer of a ring. Ring may be called at any time and more than once. A Wait may
// return early.
type Bell interface {
	// Ring wakes the waiter of word, the ring's flag, which the caller has set to 0. It
	// does not block.
	Ring(word *atomic.Uint32) error
	// Wait sleeps while word is 1, until a Ring or the end of the context.
	Wait(ctx context.Context, word *atomic.Uint32) error
	// Close releases the resources of the bell; a Wait in progress returns an error.
	Close() error
}

// FileBell is a Bell over a descriptor, either an eventfd or one end of a pipe. A waiter occupies a
// goroutine but no thread. Sleeping on the ring's word itself, with futex(2), wakes sooner if the
// process has nothing else to do. But a goroutine that sleeps in a system call keeps its P of the
// Go scheduler from other goroutines for up to 10 ms; see BenchmarkRing.
//
// Between processes that do not trust each other the descriptor has to be a pipe. Both sides of an
// eventfd share its flags: one side can fill the counter and make the descriptor block, and then
// Ring never returns on the other side. The two ends of a pipe have separate flags.
//
// One goroutine at a time may Wait. Ring does not allocate, nor does a Wait with the same context
// as the Wait before. Neither makes a system call that the scheduler knows of: in a process that
// was idle, the first such call also wakes the scheduler's watchdog (sysmon), a thread that has
// nothing to do there and costs more than the bell.
type FileBell struct {
	file *os.File

	mu sync.RWMutex // held to read fd and to close it
	fd int          // -1 once closed

	// Only the waiter uses these, and it holds mu to change done and stop. stop belongs to the
	// context whose Done channel is done.
	done <-chan struct{}
	stop func() bool
	conn syscall.RawConn
	look func(uintptr) bool // made once, so that Wait does not allocate
	got  error              // what look found
	rung [64]byte
}

// NewEventBell makes an eventfd.
func NewEventBell() (*FileBell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return newFileBell(fd), nil
}

// NewPipeBell makes a pipe. ours is the end that rings, or the one that waits if rings is false.
// theirs is the other end, for BellOf in another process. The caller owns theirs and keeps it open
// as long as ours is in use. Then the death of the other process neither fails a Ring nor ends a
// Wait.
func NewPipeBell(rings bool) (ours *FileBell, theirs int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, -1, os.NewSyscallError("pipe2", err)
	}
	if rings {
		return newFileBell(ends[1]), ends[0], nil
	}
	return newFileBell(ends[0]), ends[1], nil
}

// BellOf takes ownership of a descriptor that came from the bell of another process.
func BellOf(fd int) (*FileBell, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("descriptor %d is no bell: %w", fd, err)
	}
	return newFileBell(fd), nil
}

func newFileBell(fd int) *FileBell {
	b := &FileBell{file: os.NewFile(uintptr(fd), "bell"), fd: fd}
	b.conn, _ = b.file.SyscallConn() // It fails only for a nil file.
	b.look = b.listen
	return b
}

// FD returns the descriptor, which the bell still owns, or -1 if the bell is closed.
func (b *FileBell) FD() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.fd
}

// Ring implements Bell. A full counter, which only a hostile reader causes, is no error: the other
// side has been woken often enough.
func (b *FileBell) Ring(*atomic.Uint32) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.fd < 0 {
		return os.ErrClosed
	}
	one := uint64(1)
	// The descriptor does not block, so the scheduler need not know of the call.
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(b.fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	if e != 0 && e != unix.EAGAIN {
		return os.NewSyscallError("write", e)
	}
	return nil
}

// Wait implements Bell.
func (b *FileBell) Wait(ctx context.Context, _ *atomic.Uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if done := ctx.Done(); done != nil && done != b.done {
		if err := b.follow(ctx); err != nil {
			return err
		}
	}
	b.got = nil
	switch err := b.conn.Read(b.look); {
	case err == nil:
		return b.got
	case b.FD() < 0:
		return os.ErrClosed
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	// The deadline may have been set by an earlier context or by Wake. Clear it before checking
	// this context, which ends before it sets the deadline.
	if err := b.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return ctx.Err()
}

// listen reads the rings so far. It returns false if there are none. The descriptor does not block.
func (b *FileBell) listen(fd uintptr) bool {
	for {
		n, _, e := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&b.rung)), unsafe.Sizeof(b.rung))
		switch {
		case e == unix.EINTR:
			continue
		case e == unix.EAGAIN:
			return false
		case e != 0:
			b.got = os.NewSyscallError("read", e)
		case n == 0:
			b.got = io.EOF
		}
		return true
	}
}

// Wake ends the Wait in progress, or otherwise the next one, without an error. Unlike Ring it does
// not involve the other side.
func (b *FileBell) Wake() { b.late() }

// follow has late called when the context ends, until another context is followed or the bell is
// closed.
func (b *FileBell) follow(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd < 0 {
		return os.ErrClosed
	}
	if b.stop != nil {
		b.stop()
	}
	b.done, b.stop = ctx.Done(), context.AfterFunc(ctx, b.late)
	return nil
}

// late ends a Wait.
func (b *FileBell) late() { _ = b.file.SetReadDeadline(time.Unix(1, 0)) }

// Close implements Bell. It may be called again.
func (b *FileBell) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd < 0 {
		return nil
	}
	b.fd = -1
	if b.stop != nil {
		b.stop()
	}
	return b.file.Close()
}
