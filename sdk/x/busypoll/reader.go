package busypoll

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Reader reads from a stream socket. It polls before it sleeps. It reads up to 64 KiB with raw
// system calls, which is safe because the socket does not block: in a process that was idle, the
// first system call that Go's scheduler knows of also wakes its watchdog (sysmon). Read deadlines
// and Close end a Read as they end a Read of the connection. One Read at a time is allowed; none
// allocates.
type Reader struct {
	raw    syscall.RawConn
	poller Poller

	try  func(fd uintptr) bool // made once, so that Read does not allocate
	look func() bool
	fd   uintptr // for look
	into []byte
	n    int
	err  error
	poll *Poller // of this Read, nil once it has polled, or if it must not
}

// most is how many bytes one raw system call moves: the scheduler cannot preempt a goroutine whose
// call copies megabytes.
const most = 64 << 10

// maxBufs is the most buffers that one system call sends.
const maxBufs = 66

// NewReader returns a Reader of conn, which the caller still owns. A Read polls for up to the given
// duration; see [Poller].
func NewReader(conn syscall.Conn, poll time.Duration) (*Reader, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &Reader{raw: raw, poller: Poller{For: poll}}
	r.try, r.look = r.attempt, r.take
	return r, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) { return r.ReadWith(p, &r.poller) }

// ReadAsleep is a Read that does not poll. It is for callers that expect nothing soon.
func (r *Reader) ReadAsleep(p []byte) (int, error) { return r.ReadWith(p, nil) }

// ReadWith is a Read that polls as poller decides. It is for callers that wait for several kinds of answers, of which
// some come sooner than others: with a poller for each kind, those that come late do not poll in vain. A nil poller
// does not poll.
func (r *Reader) ReadWith(p []byte, poller *Poller) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.into, r.n, r.err, r.poll = p, 0, nil, poller
	err := r.raw.Read(r.try)
	r.into, r.poll = nil, nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, r.err
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// attempt reads, and polls first if no data is available. It returns false if Read has to sleep.
func (r *Reader) attempt(fd uintptr) bool {
	r.fd = fd
	if r.take() {
		return true
	}
	poller := r.poll
	if r.poll = nil; poller == nil {
		return false
	}
	return poller.Wait(r.look)
}

// take reads what is available. It returns false if there is nothing yet.
func (r *Reader) take() bool {
	for {
		n, err := r.receive()
		switch {
		case err == nil:
			r.n = n
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		default:
			r.err = os.NewSyscallError("recv", err)
		}
		return true
	}
}

func (r *Reader) receive() (int, error) {
	if len(r.into) > most {
		return syscall.Read(int(r.fd), r.into)
	}
	return receive(r.fd, r.into)
}

// IsTimeout reports whether a Read ended because of the connection's read deadline.
func IsTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Send writes what the socket takes at once, by a raw system call if b is small. It does not wait:
// EAGAIN means that the socket took nothing.
func Send(fd uintptr, b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case len(b) > most:
		return syscall.Write(int(fd), b)
	}
	return send(fd, b)
}
