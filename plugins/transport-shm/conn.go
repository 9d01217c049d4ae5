package shm

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

// sendLimit bounds how long one message may wait for room in the socket.
const sendLimit = time.Second

// conn carries messages, each with at most one descriptor. One goroutine may send while
// another one receives.
type conn struct{ *net.UnixConn }

// dial connects to an abstract socket of this network namespace.
func dial(ctx context.Context, name string) (conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", name)
	if err != nil {
		return conn{}, err
	}
	return conn{c.(*net.UnixConn)}, nil
}

// send writes one message. fd -1 is none; it stays the caller's.
func (c conn) send(m message, fd int) error {
	var b [messageSize]byte
	m.put(&b)
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if err := c.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, _, err := c.WriteMsgUnix(b[:], rights, nil)
	return err
}

// errMessage says that what arrived is no message.
type errMessage struct{ error }

func (e errMessage) Unwrap() error { return e.error }

// recv reads one message and the descriptor that came with it, -1 for none. The descriptor
// is the caller's, and comes without an error only. errMessage for what is no message.
func (c conn) recv() (message, int, error) {
	var b [messageSize]byte
	n, fds, err := shm.ReadMsg(c.UnixConn, b[:], 1)
	if errors.Is(err, shm.ErrMessage) {
		err = errMessage{err}
	}
	if err != nil {
		return message{}, -1, err
	}
	fd := -1
	if len(fds) > 0 {
		fd = fds[0]
	}
	m, err := decodeMessage(b[:n])
	if err != nil {
		closeFD(fd)
		return message{}, -1, errMessage{err}
	}
	return m, fd, nil
}

// ended reports whether an error of recv means that the other end is closed: by the process,
// or by the kernel after the last of its threads left user space.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) }

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // It was mapped, or is of no use.
	}
}

// peerUser asks the kernel which user connected, or listens.
func (c conn) peerUser() (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, got); err != nil {
		return 0, fmt.Errorf("ask who is at the other end of the socket: %w", err)
	}
	return cred.Uid, nil
}

// foreign reports whether a user is neither this one nor root, either of whom could read
// this process's memory anyhow.
func foreign(user uint32) bool { return user != 0 && int64(user) != int64(os.Geteuid()) }
