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

	"github.com/mooncake-go/mooncake/sdk/x/shm"
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
	for got := 0; got < len(b); {
		most := 1
		if *fd >= 0 {
			most = 0
		}
		n, fds, err := shm.ReadMsg(c.UnixConn, b[got:], most)
		switch {
		case errors.Is(err, io.EOF) && got > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case len(fds) > 0:
			*fd = fds[0]
		}
		got += n
	}
	return nil
}
