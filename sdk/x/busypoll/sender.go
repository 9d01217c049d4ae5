package busypoll

import (
	"errors"
	"net"
	"syscall"
)

// Sender sends what a stream socket takes at once, and never waits. It ignores write deadlines. One
// Send at a time is allowed; none allocates.
type Sender struct {
	raw  syscall.RawConn
	call func(fd uintptr) // made once, so that Send does not allocate
	bufs [][]byte
	n    int
	err  error
}

// NewSender returns a Sender for conn, which the caller still owns.
func NewSender(conn syscall.Conn) (*Sender, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Sender{raw: raw}
	s.call = func(fd uintptr) { s.n, s.err = sendVec(fd, s.bufs) }
	return s, nil
}

// Send makes one system call and removes what the socket took from the front of bufs. Bytes are
// left if the socket is full, which is no error, or if there are more than 66 buffers.
func (s *Sender) Send(bufs *net.Buffers) error {
	s.bufs, s.n, s.err = (*bufs)[:min(len(*bufs), maxBufs)], 0, nil
	err := s.raw.Control(s.call)
	s.bufs = nil
	switch {
	case err != nil:
		return err
	case errors.Is(s.err, syscall.EAGAIN), errors.Is(s.err, syscall.EINTR):
		return nil
	case s.err != nil:
		return s.err
	}
	consume(bufs, s.n)
	return nil
}
