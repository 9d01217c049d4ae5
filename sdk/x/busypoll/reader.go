package busypoll

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Reader reads from a stream socket. It polls before it sleeps, and takes up to 64 KiB past the
// scheduler: the socket does not block, and the first system call that the scheduler knows of, in a
// process that was idle, wakes the scheduler's watchdog (sysmon) as well. Read deadlines and Close
// of the connection end a Read as they end the connection's own. One at a time; none allocates.
type Reader struct {
	raw    syscall.RawConn
	poller Poller

	try  func(fd uintptr) bool // made once, so that Read does not allocate
	look func() bool
	fd   uintptr // for look
	into []byte
	n    int
	err  error
	late bool // it has polled
}

// most is what is moved past the scheduler at a time: nothing preempts a call that copies
// megabytes.
const most = 64 << 10

// pieces is how many pieces of memory are sent in one call at most.
const pieces = 66

// NewReader reads from conn, which stays the caller's, and polls for so long; see [Poller].
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
func (r *Reader) Read(p []byte) (int, error) { return r.read(p, true) }

// ReadAsleep is a Read that does not poll, where nothing is expected soon.
func (r *Reader) ReadAsleep(p []byte) (int, error) { return r.read(p, false) }

func (r *Reader) read(p []byte, poll bool) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.into, r.n, r.err, r.late = p, 0, nil, !poll
	err := r.raw.Read(r.try)
	r.into = nil
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

// attempt reads, after polling where nothing is there the first time. False is to sleep.
func (r *Reader) attempt(fd uintptr) bool {
	r.fd = fd
	if r.take() {
		return true
	}
	if r.late {
		return false
	}
	r.late = true
	return r.poller.Wait(r.look)
}

// take reads what is there, false for nothing yet.
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

// IsTimeout reports whether a Read ended for the connection's read deadline.
func IsTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Send writes what the socket takes at once, past the scheduler where that is not much. It does not
// wait: EAGAIN is that it took nothing.
func Send(fd uintptr, b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case len(b) > most:
		return syscall.Write(int(fd), b)
	}
	return send(fd, b)
}
