package busypoll

import (
	"errors"
	"net"
	"syscall"
)

// Sender sends over a stream socket what it takes at once, and never waits. One Send at a time,
// none allocates; write deadlines of the connection do not matter to it.
type Sender struct {
	raw  syscall.RawConn
	call func(fd uintptr) // made once, so that Send does not allocate
	bufs [][]byte
	n    int
	err  error
}

// NewSender sends over conn, which stays the caller's.
func NewSender(conn syscall.Conn) (*Sender, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Sender{raw: raw}
	s.call = func(fd uintptr) { s.n, s.err = sendVec(fd, s.bufs) }
	return s, nil
}

// Send takes off the front of bufs what the socket took: in one system call, so not all of it
// where the socket is full, which is no error, nor of more than 66 pieces.
func (s *Sender) Send(bufs *net.Buffers) error {
	s.bufs, s.n, s.err = (*bufs)[:min(len(*bufs), pieces)], 0, nil
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
