// Package framed has what the connections of servers and clients share whose messages are frames over
// TCP: they are written without waiting, and read by the goroutine that works on them.
package framed

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// Outbox writes frames to a connection. The sender does not wait: a goroutine writes what the
// kernel does not take at once. A peer that does not read loses the connection. Safe for concurrent
// use.
type Outbox struct {
	conn  net.Conn  // of the system
	under io.Closer // closes conn, without a goodbye of TLS
	raw   syscall.RawConn
	tls   *sealer // nil without TLS
	stall time.Duration
	limit int // of bytes that wait

	mu      sync.Mutex
	now     attempt
	waiting []byte // what the kernel did not take, nil while nothing waits
	writing bool   // a goroutine writes what waits
	err     error
	rest    sync.WaitGroup
}

var errSlow = errors.New("the peer does not read what is sent to it")

// errNoSocket is the error for a connection that is not one of the system.
var errNoSocket = errors.New("the connection is not one of the system")

// NewOutbox returns an outbox of conn, which ends when the peer takes nothing for stall, or where more
// than limit bytes would wait.
func NewOutbox(conn net.Conn, stall time.Duration, limit int) (*Outbox, error) {
	sc, ok := security.Socket(conn)
	if !ok {
		return nil, errNoSocket
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &Outbox{conn: security.Below(conn), raw: raw, stall: stall, limit: limit}
	o.under = o.conn
	if w := security.WireOf(conn); w != nil {
		o.tls, o.under = &sealer{conn: conn, out: o}, w
		w.Divert(nil, o.tls.take)
	}
	return o, nil
}

// attempt is a write that does not wait. What it works with is made once: the system's
// connections take a function, which would be made for each frame.
type attempt struct {
	frame []byte
	n     int
	err   error
	try   func(fd uintptr) bool
}

// write returns how much the kernel took at once.
func (a *attempt) write(raw syscall.RawConn, frame []byte) (int, error) {
	if a.try == nil {
		a.try = a.once
	}
	a.frame, a.n, a.err = frame, 0, nil
	err := raw.Write(a.try)
	a.frame = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(a.err, syscall.EAGAIN):
		return 0, nil
	}
	return a.n, a.err
}

// once never waits.
func (a *attempt) once(fd uintptr) bool {
	for {
		if a.n, a.err = busypoll.Send(fd, a.frame); !errors.Is(a.err, syscall.EINTR) {
			return true
		}
	}
}

// Send writes a frame, or keeps it until the kernel takes it. The frame stays the caller's.
// An error ends the connection.
func (o *Outbox) Send(frame []byte) error {
	if o.tls != nil {
		return o.tls.send(frame)
	}
	return o.send(frame)
}

// send writes bytes for the connection of the system.
func (o *Outbox) send(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.writing {
		return o.keep(frame)
	}
	n, err := o.now.write(o.raw, frame)
	if err != nil {
		return o.fail(err)
	}
	if n = max(n, 0); n == len(frame) {
		return nil
	}
	return o.keep(frame[n:])
}

// keep puts bytes behind those that wait. mu is held.
func (o *Outbox) keep(b []byte) error {
	if len(o.waiting)+len(b) > o.limit {
		return o.fail(errSlow)
	}
	o.waiting = append(o.waiting, b...)
	if !o.writing {
		o.writing = true
		o.rest.Go(o.write)
	}
	return nil
}

// write writes what waits until nothing does.
func (o *Outbox) write() {
	for {
		o.mu.Lock()
		b := o.waiting
		o.waiting = nil
		if len(b) == 0 || o.err != nil {
			o.writing = false
			if o.err == nil { // An old one would end the next write.
				_ = o.conn.SetWriteDeadline(time.Time{})
			}
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		err := o.conn.SetWriteDeadline(time.Now().Add(o.stall))
		if err == nil {
			_, err = o.conn.Write(b)
		}
		if err != nil {
			o.mu.Lock()
			_ = o.fail(err)
			o.mu.Unlock()
		}
	}
}

// fail ends the connection. mu is held.
func (o *Outbox) fail(err error) error {
	if o.err == nil {
		o.err = err
		o.waiting = nil
		_ = o.under.Close()
	}
	return o.err
}

// Close ends the connection, waits for the goroutine, and returns why the connection ended first.
func (o *Outbox) Close(why error) error {
	o.mu.Lock()
	why = o.fail(why)
	o.mu.Unlock()
	o.rest.Wait()
	return why
}

// maxKeptRecords is the largest buffer of records that is kept for the next frame, in bytes.
const maxKeptRecords = 256 << 10

// sealer has TLS encrypt frames for an Outbox: the records of one frame are collected and then sent at once,
// without waiting, as a frame without TLS is.
type sealer struct {
	conn net.Conn // TLS
	out  *Outbox

	sending sync.Mutex // one frame at a time

	mu         sync.Mutex
	collecting bool
	records    []byte
}

func (s *sealer) send(frame []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	s.collecting = true
	s.mu.Unlock()
	_, err := s.conn.Write(frame)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collecting = false
	if err == nil {
		err = s.out.send(s.records)
	}
	if s.records = s.records[:0]; cap(s.records) > maxKeptRecords {
		s.records = nil
	}
	if err != nil { // A frame that was sent in part ends the connection.
		s.out.mu.Lock()
		defer s.out.mu.Unlock()
		return s.out.fail(err)
	}
	return nil
}

// take is how TLS writes, one call after the other: the records of a frame, and what it sends by itself.
func (s *sealer) take(record []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collecting {
		s.records = append(s.records, record...)
		return len(record), nil
	}
	if err := s.out.send(record); err != nil {
		return 0, err
	}
	return len(record), nil
}
