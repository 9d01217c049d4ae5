package shm

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// ErrMessage marks a message that cannot be taken as it is: it is longer than the buffer,
// carries more descriptors than it may, or lost some on its way because the limit on open files
// was reached.
var ErrMessage = errors.New("a message with too much in it")

// ReadMsg reads once from a socket of a program that does not use Conn: one message of a
// unixpacket socket, or what is there of a stream. It waits as Read does, until the deadline of c.
// The descriptors, at most MaxFDs and at most most of them, are the caller's to close. With an error
// there are none: io.EOF when the other end is closed, ErrMessage, or an error of the socket.
func ReadMsg(c *net.UnixConn, buf []byte, most int) (n int, fds []int, err error) {
	var room [unix.SizeofCmsghdr + 4*(MaxFDs+2)]byte
	oob := room[:unix.CmsgSpace(4*min(most, MaxFDs))]
	n, k, flags, _, err := c.ReadMsgUnix(buf, oob)
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		err = io.EOF // Not wrapped.
	}
	fds, err = received(oob[:max(k, 0)], flags, most, err)
	if err != nil {
		return 0, nil, err
	}
	return n, fds, nil
}

// received returns the descriptors that came with a message. With an error, also the one it
// was given, it closes them.
func received(oob []byte, flags, most int, err error) ([]int, error) {
	fds, bad := rights(oob)
	switch {
	case err != nil:
	case bad != nil:
		err = fmt.Errorf("%w: %w", ErrMessage, bad)
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: it is longer than expected", ErrMessage)
	case flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%w: descriptors were lost on its way (is the limit on open files reached?)", ErrMessage)
	case len(fds) > most:
		err = fmt.Errorf("%w: %d descriptors, at most %d were expected", ErrMessage, len(fds), most)
	}
	if err != nil {
		closeFDs(fds)
		return nil, err
	}
	return fds, nil
}

// rights returns the descriptors among control messages. Others, such as credentials, are
// of no interest: the kernel sends them only when asked.
func rights(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, e := unix.ParseUnixRights(&messages[i]); e == nil {
			fds = append(fds, got...)
		}
	}
	return fds, err
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // Nobody wants it.
	}
}
