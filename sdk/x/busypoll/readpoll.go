package busypoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ReadPoller polls for bytes that another goroutine reads, which has been asleep since before any were
// expected. Its Wait returns when they have arrived, or after the limit. The scheduler, which has
// nothing else to do then, finds the sleeping reader itself, so that no thread has to be woken.
type ReadPoller struct {
	raw    syscall.RawConn
	poller Poller
	stop   func() bool
	fd     uintptr
	own    *Conn // nil if the connection is not a Conn
	asleep bool  // a reader of own is asleep; Wait wakes it
	begun  bool  // Wait has disarmed own
	found  bool
	poll   func(fd uintptr) // made once, so that Wait does not allocate
	look   func() bool
}

// NewReadPoller returns a poller of conn, which the caller still owns. A wait polls for up to the
// given duration, see [Poller], and ends sooner if stop returns true.
func NewReadPoller(conn syscall.Conn, poll time.Duration, stop func() bool) (*ReadPoller, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &ReadPoller{raw: raw, poller: Poller{For: poll}, stop: stop}
	l.own, _ = conn.(*Conn)
	l.look = func() bool {
		if l.own != nil && !l.begun {
			l.begun, l.asleep = true, l.own.disarm()
		}
		return l.stop() || readable(l.fd)
	}
	l.poll = func(fd uintptr) {
		l.fd, l.begun, l.asleep = fd, false, false
		l.found = l.poller.Wait(l.look)
	}
	return l, nil
}

// Wait polls until data arrives, stop returns true or the time is up. One call at a time is
// allowed; a Read of the same connection may be in progress.
func (l *ReadPoller) Wait() {
	l.asleep = false
	_ = l.raw.Control(l.poll) // A closed connection has nothing to wait for.
	switch {
	case !l.asleep:
	case l.found:
		l.own.in.wake()
	default:
		if l.own.arm(unix.EPOLLIN) != nil {
			l.own.in.wake() // The reader gets the error itself.
		}
	}
}
