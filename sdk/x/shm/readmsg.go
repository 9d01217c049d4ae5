package shm

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// ErrMessage is the error of a message that is longer than the buffer, carries more descriptors
// than allowed, or lost descriptors in transit because the limit on open files was reached.
var ErrMessage = errors.New("a message with too much in it")

// ReadMsg reads once from a socket whose peer does not use Conn: one message of a unixpacket
// socket, or the available bytes of a stream. It waits as Read does, until the deadline of c. It
// accepts up to most descriptors, but never more than MaxFDs, and the caller closes them. After an
// error there are none. The error is io.EOF if the other end is closed, ErrMessage, or an error of
// the socket.
func ReadMsg(c *net.UnixConn, buf []byte, most int) (n int, fds []int, err error) {
	var space [unix.SizeofCmsghdr + 4*(MaxFDs+2)]byte
	oob := space[:unix.CmsgSpace(4*min(most, MaxFDs))]
	ended := func() bool { return n == 0 && (err == nil || errors.Is(err, io.EOF)) }
	n, k, flags, _, err := c.ReadMsgUnix(buf, oob)
	// Linux may report the end of a SOCK_SEQPACKET socket although a message is there (unix_dgram_recvmsg of Linux
	// 6.18): it finds the queue empty, then the other end sends and closes, and then it looks whether the other end
	// is closed. So the end counts the second time.
	if ended() && k <= 0 {
		n, k, flags, _, err = c.ReadMsgUnix(buf, oob)
	}
	if ended() {
		err = io.EOF // Not wrapped.
	}
	fds, err = received(oob[:max(k, 0)], flags, most, err)
	if err != nil {
		return 0, nil, err
	}
	return n, fds, nil
}

// received returns the descriptors that came with a message. It closes them if the message is
// invalid or if err is not nil.
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

// rights returns the descriptors among control messages and ignores other control messages, such as
// credentials, which the kernel sends only on request.
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
		_ = unix.Close(fd) // An error changes nothing.
	}
}
