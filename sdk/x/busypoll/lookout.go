package busypoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lookout polls for bytes that somebody else will read, who has slept since before there was
// anything to expect. When they are there, or after the limit, it returns; the scheduler, which has
// nothing else to do then, finds who sleeps for them by itself, and no thread has to be woken.
type Lookout struct {
	raw    syscall.RawConn
	poller Poller
	stop   func() bool
	fd     uintptr
	own    *Conn // nil for one of another kind
	asleep bool  // somebody sleeps for own, and is woken by Wait
	begun  bool  // own knows that Wait looks
	found  bool
	poll   func(fd uintptr) // made once, so that Wait does not allocate
	look   func() bool
}

// NewLookout looks at conn, which stays the caller's, and polls for so long; see [Poller]. Stop
// ends a wait sooner.
func NewLookout(conn syscall.Conn, poll time.Duration, stop func() bool) (*Lookout, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &Lookout{raw: raw, poller: Poller{For: poll}, stop: stop}
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

// Wait polls. One at a time; a Read of the same connection may be under way.
func (l *Lookout) Wait() {
	l.asleep = false
	_ = l.raw.Control(l.poll) // A connection that is closed has nothing to wait for.
	switch {
	case !l.asleep:
	case l.found:
		l.own.in.wake()
	default:
		if l.own.arm(unix.EPOLLIN) != nil {
			l.own.in.wake() // It meets the error itself.
		}
	}
}
