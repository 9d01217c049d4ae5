// Package aio reads and writes files without blocking the caller: with io_uring, or with goroutines
// that call preadv and pwritev.
//
// Both engines have the same rules. Submit queues requests and never blocks. Each is ended by one
// call of its function Done, from a goroutine of the engine. A short read or write is continued, so
// a request moves all its bytes or fails.
package aio

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Request is one read or write of adjacent bytes of a file. It must not be changed until Done.
type Request struct {
	Write bool
	FD    int
	Off   int64
	// Bufs is the memory, in the order of the file. The engine shortens it.
	Bufs [][]byte
	// Done is called when the kernel does not touch the memory any more, with nil or why the
	// request failed: a unix.Errno, or io.ErrUnexpectedEOF. It must not block.
	Done func(error)

	vec []unix.Iovec
}

// Engine is an open ring or pool.
type Engine interface {
	// Submit queues requests. Those that come after Close are done at once, with ErrClosed.
	Submit(...*Request)
	// Depth is how many requests the engine has at the kernel at a time; more wait.
	Depth() int
	// Close waits for all requests and frees the engine. When the context ends first, it returns an
	// error, and the engine is freed as soon as the kernel has ended the last request.
	Close(context.Context) error
}

// ErrClosed is the error of requests that were submitted after Close.
var ErrClosed = errors.New("the engine is closed")

// advance drops n bytes from the front of the buffers.
func advance(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// moved accounts for what a system call returned. again says that the rest of the request follows.
func (q *Request) moved(n int, errno error) (again bool, err error) {
	switch {
	case errors.Is(errno, unix.EINTR), errors.Is(errno, unix.EAGAIN):
		return true, nil
	case errno != nil:
		return false, errno
	case n == 0:
		return false, io.ErrUnexpectedEOF
	}
	q.Bufs = advance(q.Bufs, n)
	return len(q.Bufs) > 0, nil
}

// closed waits for an engine to end.
func closed(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	default:
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the storage does not respond: %w", ctx.Err())
	}
}
