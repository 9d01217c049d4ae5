package verbs

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sleeper lets one goroutine at a time wait for a descriptor of the library to become
// readable, without holding a thread.
type sleeper struct {
	file *os.File
	conn syscall.RawConn
	// take reads what the descriptor has; it returns false for nothing yet.
	take func(uintptr) bool
	// idle is locked while a goroutine waits.
	idle    sync.Mutex
	stopped atomic.Bool
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// newSleeper watches a duplicate of fd, which stays the library's. It makes fd non-blocking.
func newSleeper(fd int, name string, take func() bool) (*sleeper, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	own, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	s := &sleeper{file: os.NewFile(own, name), take: func(uintptr) bool { return take() }}
	// A file that the poller does not take would block a thread, and could not be woken.
	err := s.file.SetReadDeadline(time.Time{})
	if err == nil {
		s.conn, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// wait calls check until it reports true, and sleeps in between until there was something to
// take or wake was called. It returns the error of the context, ErrClosed or ErrBusy otherwise.
func (s *sleeper) wait(ctx context.Context, check func() bool) error {
	if !s.idle.TryLock() {
		if s.stopped.Load() {
			return ErrClosed
		}
		return ErrBusy
	}
	defer s.idle.Unlock()
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, s.wake)()
	}
	for {
		// First clear the last wake, then look at what a wake is about: one that comes in
		// between ends the sleep at once.
		if err := s.file.SetReadDeadline(time.Time{}); err != nil {
			return ErrClosed
		}
		if s.stopped.Load() {
			return ErrClosed
		}
		if check() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.conn.Read(s.take)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// wake lets the waiter check again.
func (s *sleeper) wake() {
	// It fails only when the file is closed, and then no goroutine waits.
	_ = s.file.SetReadDeadline(past)
}

// stop sends the waiter away, waits until it has left, and closes the duplicate. Repeatable.
func (s *sleeper) stop() {
	s.stopped.Store(true)
	s.wake()
	s.idle.Lock()
	defer s.idle.Unlock()
	// The duplicate has nothing to flush: closing it cannot lose anything.
	_ = s.file.Close()
}
