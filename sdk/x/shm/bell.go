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

// FileBell is a Bell over a descriptor, an eventfd or one end of a pipe: waiting costs a
// goroutine, no thread. Sleeping on the ring's word itself, with futex(2), wakes sooner
// where nothing else is to do, but a goroutine that sleeps in a system call keeps its
// processor (the P of the Go scheduler) for up to 10 ms from those that could use it; see
// BenchmarkRing.
//
// Between processes that do not trust each other it has to be a pipe. Both sides have the
// same eventfd: one of them can fill its counter and make it a descriptor that blocks, and
// the other one's Ring never returns. The ends of a pipe have flags of their own.
//
// One goroutine at a time may Wait. Neither Ring nor a Wait with the context of the Wait
// before allocates, or makes a system call that the scheduler knows of: the first of those in
// a process that was idle wakes the scheduler's watchdog (sysmon) as well, a thread that has
// nothing to do there and costs more than the bell.
type FileBell struct {
	file *os.File

	mu sync.RWMutex // held to read fd, and to end it
	fd int          // -1 once closed

	// The waiter's, who changes done and stop with mu held. done is of the context that stop
	// was made for.
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

// NewPipeBell makes a pipe. ours is the end that rings, or else the one that waits; theirs
// is the other end, for BellOf in another process. It is the caller's, who keeps it open as
// long as ours is in use: then a process that is gone neither fails a Ring nor ends a Wait.
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

// BellOf takes over a bell's descriptor of another process.
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
	b.conn, _ = b.file.SyscallConn() // It fails for a nil file alone.
	b.look = b.listen
	return b
}

// FD returns the descriptor, which stays the bell's; -1 for a bell that is closed.
func (b *FileBell) FD() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.fd
}

// Ring implements Bell. A counter that is full, which only a hostile reader brings about,
// is no error: the other side has been told often enough.
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
		if err := b.heed(ctx); err != nil {
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
	// The alarm may have been that of an earlier context, or Wake's. First it is put off, then
	// the own context is looked at: it ends before it raises one.
	if err := b.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return ctx.Err()
}

// listen takes what was rung, false where that is nothing yet. The descriptor does not block.
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

// Wake ends the Wait under way, or else the next one, with no error. Unlike Ring the other
// side has no part in it.
func (b *FileBell) Wake() { b.late() }

// heed arranges for late at the end of the context, until another one is heeded or the bell
// is closed.
func (b *FileBell) heed(ctx context.Context) error {
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

// Close implements Bell. Repeatable.
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
