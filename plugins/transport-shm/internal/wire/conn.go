package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// SendLimit bounds how long one message may wait for space in the socket.
const SendLimit = time.Second

// Conn carries messages, each with at most one descriptor. One goroutine may send while another one
// receives.
type Conn struct{ *net.UnixConn }

// Dial connects to an abstract socket of this network namespace.
func Dial(ctx context.Context, name string) (Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", name)
	if err != nil {
		return Conn{}, err
	}
	return Conn{c.(*net.UnixConn)}, nil
}

// Send writes one message. fd is -1 for none; it stays the caller's.
func (c Conn) Send(m Message, fd int) error {
	var b [MessageSize]byte
	m.Put(&b)
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if err := c.SetWriteDeadline(time.Now().Add(SendLimit)); err != nil {
		return err
	}
	_, _, err := c.WriteMsgUnix(b[:], rights, nil)
	return err
}

// ErrMessage says that the bytes that arrived are no message.
type ErrMessage struct{ error }

// Unwrap returns the cause.
func (e ErrMessage) Unwrap() error { return e.error }

// Receive reads one message and the descriptor that came with it, -1 for none. The descriptor is
// the caller's, and comes without an error only. The error is ErrMessage for bytes that are no
// message.
func (c Conn) Receive() (Message, int, error) {
	var b [MessageSize]byte
	n, fds, err := shm.ReadMsg(c.UnixConn, b[:], 1)
	if errors.Is(err, shm.ErrMessage) {
		err = ErrMessage{err}
	}
	if err != nil {
		return Message{}, -1, err
	}
	fd := -1
	if len(fds) > 0 {
		fd = fds[0]
	}
	m, err := DecodeMessage(b[:n])
	if err != nil {
		CloseFD(fd)
		return Message{}, -1, ErrMessage{err}
	}
	return m, fd, nil
}

// Ended reports whether an error of recv means that the other end is closed: by the process, or by
// the kernel after the last of its threads left user space.
func Ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) }

// CloseFD closes a descriptor, unless it is negative.
func CloseFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // It was mapped, or is of no use.
	}
}

// PeerUser asks the kernel which user connected, or listens.
func (c Conn) PeerUser() (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, got); err != nil {
		return 0, fmt.Errorf("query the process at the other end of the socket: %w", err)
	}
	return cred.Uid, nil
}

// Foreign reports whether a user is neither this one nor root, either of whom could read this
// process's memory anyhow.
func Foreign(user uint32) bool { return user != 0 && int64(user) != int64(os.Geteuid()) }
