package busypoll

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a stream socket that Go's scheduler does not watch. It would wake a thread for all that
// comes, also where somebody who polls has it already; that takes longer than most answers. A Conn
// is watched, by a descriptor of this package for all of them, only while somebody sleeps for it.
//
// It behaves as a *net.TCPConn does, deadlines and errors included. Where somebody uses it at the
// moment, Close returns before the socket is closed.
type Conn struct {
	local, remote net.Addr
	fd            int
	refs          atomic.Int64 // who uses fd, and one more until Close
	closed        atomic.Bool
	set           *watchSet
	in, out       side
	r             reading // of who has in
	w             writing // of who has out

	mu    sync.Mutex
	known bool   // by the set
	armed uint32 // what somebody sleeps for
	gone  bool   // fd is closed, and may be another connection's by now
}

// side is one direction of a Conn.
type side struct {
	busy  sync.Mutex    // one at a time uses it
	ready chan struct{} // holds a token when it is worth another try
	late  atomic.Bool   // the deadline has passed

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
}

// Adopt makes a Conn of a TCP connection, which must not be used any more; of another, or where
// waits do not poll for so long (see [Poller]), it returns what it got. So it does where the process
// has too few descriptors.
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

// reading is a Read. Try is made once, so that none allocates.
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

// WriteBuffers writes and consumes bufs, in as few system calls as it takes.
func (c *Conn) WriteBuffers(bufs *net.Buffers) (int64, error) {
	if err := c.begin(&c.out); err != nil {
		return 0, c.failed("write", err)
	}
	defer c.end(&c.out)
	return c.write(bufs)
}

// write writes bufs, with the side begun.
func (c *Conn) write(bufs *net.Buffers) (int64, error) {
	var total int64
	for consume(bufs, 0); len(*bufs) > 0; {
		c.w.bufs = (*bufs)[:min(len(*bufs), pieces)]
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

// writing is a Write, as reading is a Read.
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

// consume takes n bytes off the front, and what is empty.
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

// failed is an error as that of other connections.
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

// CloseWrite ends what is sent, as that of *net.TCPConn.
func (c *Conn) CloseWrite() error {
	return c.control("close", func(fd int) error { return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_WR)) })
}

// SetReadBuffer sets the size of the system's buffer, as that of *net.TCPConn.
func (c *Conn) SetReadBuffer(bytes int) error { return c.setInt(unix.SO_RCVBUF, bytes) }

// SetWriteBuffer sets the size of the system's buffer, as that of *net.TCPConn.
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
		s.deadline(time.Time{}) // Nothing is left for it to wake.
	}
	return nil
}

func (s *side) deadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = t
	if s.timer != nil {
		s.timer.Stop()
	}
	left := time.Until(t)
	s.late.Store(!t.IsZero() && left <= 0)
	switch {
	case t.IsZero():
	case left <= 0:
		s.wake()
	case s.timer == nil:
		s.timer = time.AfterFunc(left, s.pass)
	default:
		s.timer.Reset(left)
	}
}

// pass is the timer's, which may have begun when the deadline was moved.
func (s *side) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := time.Until(s.at); {
	case s.at.IsZero():
	case left <= 0:
		s.late.Store(true)
		s.wake()
	default:
		s.timer.Reset(left)
	}
}

func (s *side) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// enter keeps the socket open until leave; false where it is closed.
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

// begin takes a side for one call, until end.
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

// until calls f until it is true, and sleeps between two calls until the socket may be ready.
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

// arm has those that sleep woken once the socket is ready, also where it is already.
func (c *Conn) arm(what uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed&what == what {
		return nil
	}
	c.armed |= what
	how := unix.EPOLL_CTL_MOD
	if !c.known {
		how = unix.EPOLL_CTL_ADD
		c.set.remember(c)
	}
	err := c.watch(how)
	if err != nil {
		c.armed &^= what // Who comes next is to try again, not to sleep for nothing.
		return err
	}
	c.known = true
	return nil
}

// watch tells the system what armed says. mu is held.
func (c *Conn) watch(how int) error {
	if c.gone {
		return net.ErrClosed
	}
	err := unix.EpollCtl(c.set.fd, how, c.fd, &unix.EpollEvent{Events: c.armed | unix.EPOLLONESHOT, Fd: int32(c.fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// disarm has nobody woken for what comes, and reports whether somebody sleeps for it.
func (c *Conn) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed&unix.EPOLLIN == 0 {
		return false
	}
	c.armed &^= unix.EPOLLIN
	return c.watch(unix.EPOLL_CTL_MOD) == nil
}

// fired is called with what the system said; it says nothing more until it is asked again.
func (c *Conn) fired(events uint32) {
	const end = unix.EPOLLERR | unix.EPOLLHUP
	var said uint32
	if events&(unix.EPOLLIN|end) != 0 {
		said = unix.EPOLLIN
	}
	if events&(unix.EPOLLOUT|end) != 0 {
		said |= unix.EPOLLOUT
	}
	c.mu.Lock()
	if c.armed &^= said; c.armed != 0 {
		_ = c.watch(unix.EPOLL_CTL_MOD)
	}
	c.mu.Unlock()
	if said&unix.EPOLLIN != 0 {
		c.in.wake()
	}
	if said&unix.EPOLLOUT != 0 {
		c.out.wake()
	}
}

// SyscallConn implements syscall.Conn. A Control may be under way beside a Read and a Write.
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
