package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// maxFrame is the longest message in bytes.
const maxFrame = 64 << 10

// Conn carries messages, each with at most one file descriptor. One goroutine may send
// while another one receives.
type Conn struct {
	*net.UnixConn
}

// Send writes one message before the deadline (zero is none). fd -1 is none; it stays the
// caller's.
func (c Conn) Send(deadline time.Time, m proto.Message, fd int) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long; the most is %d", len(body), maxFrame)
	}
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	n, _, err := c.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	return err
}

// Recv reads one message before the deadline (zero is none) and returns the descriptor that
// came with it, -1 for none; it is the caller's, also beside an error. io.EOF means that
// the other side closed in between messages.
func (c Conn) Recv(deadline time.Time, m proto.Message) (fd int, err error) {
	fd = -1
	if err := c.SetReadDeadline(deadline); err != nil {
		return fd, err
	}
	var head [4]byte
	if err := c.fill(head[:], &fd); err != nil {
		return fd, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFrame {
		return fd, fmt.Errorf("a message of %d bytes is announced; the most is %d", n, maxFrame)
	}
	body := make([]byte, n)
	if err := c.fill(body, &fd); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fd, err
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return fd, fmt.Errorf("the message cannot be read: %w", err)
	}
	return fd, nil
}

// fill reads len(b) bytes and the descriptor among them. io.EOF only before the first.
func (c Conn) fill(b []byte, fd *int) error {
	rights := make([]byte, unix.CmsgSpace(4))
	for got := 0; got < len(b); {
		n, k, flags, _, err := c.ReadMsgUnix(b[got:], rights)
		if e := take(rights[:k], flags, fd); e != nil {
			return e
		}
		if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
			if got > 0 {
				return io.ErrUnexpectedEOF
			}
			return io.EOF
		}
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

// take keeps the first descriptor of a message; more than one is an error and all of them
// are closed.
func take(rights []byte, flags int, fd *int) error {
	var got []int
	if len(rights) > 0 {
		messages, err := unix.ParseSocketControlMessage(rights)
		if err != nil {
			return err
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				continue // Not descriptors; the kernel sends nothing else unasked.
			}
			got = append(got, fds...)
		}
	}
	if len(got) == 1 && *fd < 0 && flags&unix.MSG_CTRUNC == 0 {
		*fd = got[0]
		return nil
	}
	for _, f := range got {
		_ = unix.Close(f) // Nobody wants it.
	}
	if len(got) > 0 || flags&unix.MSG_CTRUNC != 0 {
		return errors.New("a message carries more than one file descriptor")
	}
	return nil
}
