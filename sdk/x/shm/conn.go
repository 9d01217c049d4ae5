package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxMessage is the longest message of a Conn in bytes.
	MaxMessage = 4 << 10
	// MaxFDs is the most descriptors that one message carries.
	MaxFDs = 8
)

// Conn carries messages with descriptors between two processes. At the end of file the other
// process is gone. One goroutine may send while another receives.
type Conn struct {
	file   *os.File
	name   string
	closed atomic.Bool
}

// Pair makes a connection. It returns one end for this process, and the other as a file for a child
// process (exec.Cmd.ExtraFiles), which the caller closes after it has started the child. The child
// calls NewConn with the number of its descriptor.
func Pair(name string) (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, os.NewSyscallError("socketpair", err))
	}
	ours, err := NewConn(fds[0], name)
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), name), nil
}

// NewConn takes ownership of a descriptor that Pair made. Programs that this process starts do not
// inherit it.
func NewConn(fd int, name string) (*Conn, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_SEQPACKET {
		err = unix.EPROTOTYPE
	}
	if err == nil {
		unix.CloseOnExec(fd)
		err = unix.SetNonblock(fd, true) // From here on deadlines work.
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%s: descriptor %d is not the socket that was expected: %w", name, fd, err)
	}
	return &Conn{file: os.NewFile(uintptr(fd), name), name: name}, nil
}

// Send sends one message with descriptors, which the caller still owns. If the peer does not read,
// Send blocks until the context ends.
func (c *Conn) Send(ctx context.Context, msg []byte, fds ...int) error {
	if len(msg) == 0 || len(msg) > MaxMessage || len(fds) > MaxFDs {
		return fmt.Errorf("%s: a message of %d bytes with %d descriptors, want 1 to %d bytes and at most %d descriptors",
			c.name, len(msg), len(fds), MaxMessage, MaxFDs)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	err := c.do(ctx, c.file.SetWriteDeadline, true, func(fd int) error {
		return unix.Sendmsg(fd, msg, rights, nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return fmt.Errorf("%s: send: %w", c.name, err)
	}
	return nil
}

// Receive waits for a message, stores it in buf and returns its length and the descriptors that
// came with it, which the caller closes. It returns io.EOF if the peer is gone. A message that is
// longer than buf, or that lost descriptors in transit, is an error, and Receive closes its
// descriptors.
func (c *Conn) Receive(ctx context.Context, buf []byte) (n int, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*MaxFDs))
	var flags, oobn int
	err = c.do(ctx, c.file.SetReadDeadline, false, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if n == 0 && oobn == 0 && err == nil { // See ReadMsg.
			n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		}
		return err
	})
	if err == nil && n == 0 {
		err = io.EOF
	}
	if fds, err = received(oob[:oobn], flags, MaxFDs, err); err == nil {
		return n, fds, nil
	}
	if errors.Is(err, unix.ECONNRESET) {
		err = io.EOF
	}
	if err == io.EOF { //nolint:errorlint // Made here.
		return 0, nil, err
	}
	return 0, nil, fmt.Errorf("%s: receive: %w", c.name, err)
}

// do makes a system call that may have to wait, but no longer than until the context ends.
func (c *Conn) do(ctx context.Context, limit func(time.Time) error, write bool, call func(fd int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	if c.closed.Load() {
		return os.ErrClosed
	}
	if err := limit(time.Time{}); err != nil {
		return err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = limit(time.Unix(1, 0))
		close(late)
	})
	defer func() {
		if !stop() {
			<-late // Otherwise the deadline could end the next call.
		}
	}()
	var got error
	try := func(fd uintptr) bool {
		for {
			if got = call(int(fd)); !errors.Is(got, unix.EINTR) {
				return !errors.Is(got, unix.EAGAIN)
			}
		}
	}
	if write {
		err = raw.Write(try)
	} else {
		err = raw.Read(try)
	}
	switch {
	case err == nil:
		return got
	case c.closed.Load():
		return os.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// Close closes the connection; a Send or Receive in progress returns. It may be called again.
func (c *Conn) Close() error {
	c.closed.Store(true)
	if err := c.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
