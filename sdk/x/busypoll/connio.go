package busypoll

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Read implements net.Conn. It does not poll.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := c.begin(&c.in); err != nil {
		return 0, c.failed("read", err)
	}
	defer c.end(&c.in)
	c.r.p = p
	err := c.until(&c.in, unix.EPOLLIN, c.r.try)
	c.r.p = nil
	switch {
	case err != nil:
		return 0, c.failed("read", err)
	case c.r.err != nil:
		return 0, c.failed("read", os.NewSyscallError("read", c.r.err))
	case c.r.n == 0:
		return 0, io.EOF
	}
	return c.r.n, nil
}

// reading is the state of a Read. try is made once so that Read does not allocate.
type reading struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

func (r *reading) once(fd uintptr) bool {
	for {
		if r.n, r.err = syscall.Read(int(fd), r.p); !errors.Is(r.err, syscall.EINTR) {
			return !errors.Is(r.err, syscall.EAGAIN)
		}
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.begin(&c.out); err != nil {
		return 0, c.failed("write", err)
	}
	defer c.end(&c.out)
	c.w.one[0] = p
	c.w.single = c.w.one[:]
	n, err := c.write(&c.w.single)
	c.w.one[0] = nil
	return int(n), err
}

// WriteBuffers writes and consumes bufs with as few system calls as possible.
func (c *Conn) WriteBuffers(bufs *net.Buffers) (int64, error) {
	if err := c.begin(&c.out); err != nil {
		return 0, c.failed("write", err)
	}
	defer c.end(&c.out)
	return c.write(bufs)
}

// write writes bufs. The caller has begun the side.
func (c *Conn) write(bufs *net.Buffers) (int64, error) {
	var total int64
	for consume(bufs, 0); len(*bufs) > 0; {
		c.w.bufs = (*bufs)[:min(len(*bufs), maxBufs)]
		err := c.until(&c.out, unix.EPOLLOUT, c.w.try)
		c.w.bufs = nil
		if err == nil && c.w.err != nil {
			err = os.NewSyscallError("sendmsg", c.w.err)
		}
		if err != nil {
			return total, c.failed("write", err)
		}
		total += int64(c.w.n)
		consume(bufs, c.w.n)
	}
	return total, nil
}

// writing is the state of a Write, as reading is that of a Read.
type writing struct {
	bufs   [][]byte
	n      int
	err    error
	try    func(fd uintptr) bool
	one    [1][]byte
	single net.Buffers
}

func (w *writing) once(fd uintptr) bool {
	for {
		if w.n, w.err = sendVec(fd, w.bufs); !errors.Is(w.err, syscall.EINTR) {
			return !errors.Is(w.err, syscall.EAGAIN)
		}
	}
}

// consume removes n bytes and all empty buffers from the front of bufs.
func consume(bufs *net.Buffers, n int) {
	for len(*bufs) > 0 && n >= len((*bufs)[0]) {
		n -= len((*bufs)[0])
		(*bufs)[0] = nil
		*bufs = (*bufs)[1:]
	}
	if n > 0 {
		(*bufs)[0] = (*bufs)[0][n:]
	}
}
