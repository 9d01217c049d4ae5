package busypoll

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a stream socket that Go's scheduler does not watch. The scheduler wakes a thread for
// everything that arrives, even when a polling goroutine has read it already, and that takes longer
// than most answers. This package has one epoll descriptor for all Conns instead, which watches a
// Conn only while a goroutine sleeps for it.
//
// A Conn behaves as a *net.TCPConn does, deadlines and errors included. If another call is in
// progress, Close returns before the socket is closed.
type Conn struct {
	local, remote net.Addr
	fd            int
	refs          atomic.Int64 // calls that use fd, plus one until Close
	closed        atomic.Bool
	set           *watchSet
	in, out       side
	r             reading // for the goroutine that holds in
	w             writing // for the goroutine that holds out

	mu    sync.Mutex
	known bool   // set watches fd
	armed uint32 // the events that goroutines sleep for
	gone  bool   // fd is closed and may belong to another connection by now
}

// Adopt turns a TCP connection into a Conn; the caller must not use conn any more. Adopt returns
// conn itself if it is not a TCP connection, if waits with this poll duration do not poll (see
// [Poller]), or if the process has run out of descriptors.
func Adopt(conn net.Conn, poll time.Duration) net.Conn {
	t, ok := conn.(*net.TCPConn)
	if !ok || poll < 0 || poll == 0 && usual.Load() <= 0 {
		return conn
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return conn
	}
	fd := -1
	err = raw.Control(func(own uintptr) { fd, _ = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || fd < 0 {
		return conn
	}
	set, err := join()
	if err != nil {
		_ = unix.Close(fd)
		return conn
	}
	c := &Conn{local: t.LocalAddr(), remote: t.RemoteAddr(), fd: fd, set: set}
	c.refs.Store(1)
	c.r.try, c.w.try = c.r.once, c.w.once
	c.in.ready, c.out.ready = make(chan struct{}, 1), make(chan struct{}, 1)
	_ = t.Close() // The socket stays open through fd; the scheduler forgets it.
	return c
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// failed wraps an error the way package net does.
func (c *Conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return c.failed("close", net.ErrClosed)
	}
	for _, s := range []*side{&c.in, &c.out} {
		s.deadline(time.Time{})
		s.wake()
	}
	c.leave()
	return nil
}

// CloseWrite shuts down the sending side, as the method of *net.TCPConn does.
func (c *Conn) CloseWrite() error {
	return c.control("close", func(fd int) error { return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_WR)) })
}

// SetReadBuffer sets the size of the kernel's receive buffer.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setInt(unix.SO_RCVBUF, bytes) }

// SetWriteBuffer sets the size of the kernel's send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error { return c.setInt(unix.SO_SNDBUF, bytes) }

func (c *Conn) setInt(option, value int) error {
	return c.control("set", func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value))
	})
}

// control calls f with the socket.
func (c *Conn) control(op string, f func(fd int) error) error {
	if !c.enter() {
		return c.failed(op, net.ErrClosed)
	}
	defer c.leave()
	if err := f(c.fd); err != nil {
		return c.failed(op, err)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.in, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.out, t) }

func (c *Conn) setDeadline(s *side, t time.Time) error {
	if !c.enter() {
		return c.failed("set", net.ErrClosed)
	}
	defer c.leave()
	s.deadline(t)
	if c.closed.Load() {
		s.deadline(time.Time{}) // No call is left for the timer to wake.
	}
	return nil
}

// enter keeps the socket open until leave. It returns false if the socket is closed.
func (c *Conn) enter() bool {
	for {
		n := c.refs.Load()
		if n == 0 || c.closed.Load() {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Conn) leave() {
	if c.refs.Add(-1) == 0 {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		c.set.forget(c)
		_ = unix.Close(c.fd)
		c.set.leave()
	}
}

// begin locks a side for one call, until end.
func (c *Conn) begin(s *side) error {
	if !c.enter() {
		return net.ErrClosed
	}
	s.busy.Lock()
	return nil
}

func (c *Conn) end(s *side) {
	s.busy.Unlock()
	c.leave()
}

// until calls f until f returns true. Between two calls it sleeps until the socket may be ready.
func (c *Conn) until(s *side, what uint32, f func(fd uintptr) bool) error {
	for {
		switch {
		case c.closed.Load():
			return net.ErrClosed
		case s.late.Load():
			return os.ErrDeadlineExceeded
		}
		if f(uintptr(c.fd)) {
			return nil
		}
		if err := c.arm(what); err != nil {
			return err
		}
		<-s.ready
	}
}

// SyscallConn implements syscall.Conn. A Control may run at the same time as a Read and a Write.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if c.closed.Load() {
		return nil, c.failed("raw-control", net.ErrClosed)
	}
	return rawConn{c}, nil
}

type rawConn struct{ c *Conn }

func (r rawConn) Control(f func(fd uintptr)) error {
	if !r.c.enter() {
		return net.ErrClosed
	}
	defer r.c.leave()
	f(uintptr(r.c.fd))
	return nil
}

func (r rawConn) Read(f func(fd uintptr) bool) error {
	return r.c.call(&r.c.in, unix.EPOLLIN, f)
}

func (r rawConn) Write(f func(fd uintptr) bool) error {
	return r.c.call(&r.c.out, unix.EPOLLOUT, f)
}

func (c *Conn) call(s *side, what uint32, f func(fd uintptr) bool) error {
	if err := c.begin(s); err != nil {
		return err
	}
	defer c.end(s)
	return c.until(s, what, f)
}
