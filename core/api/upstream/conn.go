package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// conn is one connection of a client. The goroutine that reads a small request works on it, if nothing
// else was sent: a client of upstream's has one call in flight at a time. If the call lasts for some
// milliseconds, another goroutine reads on (framed.Relief), so that no call waits for another one for
// long, and so that the end of the connection is seen.
type conn struct {
	s      *shared
	ended  func(*conn)
	handed *lean.Handed
	socket net.Conn
	peer   *Peer
	out    *framed.Outbox
	slots  chan struct{} // one token for each call in progress
	calls  sync.WaitGroup
	relief framed.Relief

	// Of the goroutine that reads:

	in    reader
	until time.Time // the read deadline
	begun bool      // a request was there

	mu      sync.Mutex
	retired bool // it reads no more, and ends once no call is in progress
	running []*job
}

func newConn(s *shared, h *lean.Handed, socket net.Conn) (*conn, error) {
	out, err := framed.NewOutbox(socket, s.o.Stall, 2*s.o.Frame)
	if err != nil {
		return nil, err
	}
	c := &conn{s: s, handed: h, socket: socket, out: out, slots: make(chan struct{}, s.o.Calls)}
	c.relief.TakeOver = c.readOn
	c.in.to = copy(c.in.buf[:], h.First[:])
	return c, c.in.open(socket, s.o.Poll)
}

// readOn reads until the connection ends, or another goroutine reads.
func (c *conn) readOn() {
	for {
		relieved, err := c.next()
		if relieved {
			return
		}
		if err != nil {
			c.finish(err)
			return
		}
	}
}

// finish ends the connection, for the last goroutine that read it. The calls of a client that is gone
// end; those of a connection that only has to end are answered.
func (c *conn) finish(err error) {
	byClient := errors.Is(err, io.EOF) && len(c.slots) == 0
	var last []byte
	if large := (*largeError)(nil); errors.As(err, &large) {
		last = tooLarge(large.seq, large.Error())
		c.s.refusals.tooLarge(c.socket.RemoteAddr(), large.function, large)
	} else if !errors.Is(err, os.ErrDeadlineExceeded) || !c.isRetired() {
		c.giveUp()
	}
	c.calls.Wait()
	if last != nil {
		foreign.TurnAway(c.socket, last)
	}
	_ = c.out.Close(err)
	c.relief.Stop()
	c.peer.left(byClient, time.Now())
	c.handed.Left()
	c.ended(c)
}

// retire ends the connection once no call is in progress.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	_ = c.socket.SetReadDeadline(time.Unix(1, 0))
}

func (c *conn) isRetired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired
}

// limitRead bounds the wait for bytes, unless the connection has to end.
func (c *conn) limitRead(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return os.ErrDeadlineExceeded
	}
	c.until = until
	return c.socket.SetReadDeadline(until)
}

// await waits for the first byte of a request. It moves the limit of the wait only when a quarter of it
// has passed, so that successive calls do not pay for it.
func (c *conn) await() error {
	for len(c.in.buffered()) == 0 {
		if limit := c.s.o.Idle; limit > 0 {
			now := time.Now()
			if left := c.until.Sub(now); left < limit-limit/4 || left > limit {
				if err := c.limitRead(now.Add(limit)); err != nil {
					return err
				}
			}
		} else if !c.until.IsZero() {
			if err := c.limitRead(time.Time{}); err != nil {
				return err
			}
		}
		err := c.in.fill()
		if err != nil && (len(c.slots) == 0 || c.isRetired() || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
		if err != nil {
			c.until = time.Time{} // A call is in progress.
		}
	}
	return nil
}

// next takes one request. It reports whether another goroutine reads now.
func (c *conn) next() (relieved bool, err error) {
	if err := c.await(); err != nil {
		return false, err
	}
	h, err := c.header()
	if err != nil {
		return false, err
	}
	c.peer.asked()
	j := takeJob()
	j.s, j.peer, j.seq, j.function = c.s, c.peer, h.seq, h.function
	refused, err := c.body(j, h)
	if err != nil {
		j.free()
		return false, err
	}
	if !c.begun {
		c.begun = true
		c.handed.Begun(c.retire)
	}
	if refused != nil {
		c.s.refusals.tell(c.socket.RemoteAddr(), h.function, refused)
		j.out = refusal(j.out, h.seq, refused)
		err = c.out.Send(j.out)
		j.free()
		return false, err
	}
	c.admit(j)
	if c.in.poll = len(j.buf) <= inline && len(c.in.buffered()) == 0; !c.in.poll {
		go c.run(j) // On this processor, once it is free.
		return false, nil
	}
	return c.relief.During(func() { c.run(j) }), nil
}

// header takes the header of a request whose first byte is there.
func (c *conn) header() (header, error) {
	for first := true; len(c.in.buffered()) < requestHeader; first = false {
		if first {
			if err := c.limitRead(time.Now().Add(c.s.o.Stall)); err != nil {
				return header{}, err
			}
		}
		if err := c.in.fill(); err != nil {
			return header{}, inside(err)
		}
	}
	h, err := parseHeader(c.in.buffered(), c.s.o.Frame)
	if errors.Is(err, errTooLarge) {
		err = &largeError{error: err, seq: h.seq, function: h.function}
	}
	if err != nil {
		return header{}, err
	}
	c.in.from += requestHeader
	return h, nil
}

// largeError is the end of a connection whose client announced a request that is too large.
type largeError struct {
	error
	seq, function uint32
}

// Unwrap returns the error that it wraps.
func (e *largeError) Unwrap() error { return e.error }

// body takes what follows the header. A large body waits for memory first; the request is refused where
// there is none. An error ends the connection.
func (c *conn) body(j *job, h header) (*Refused, error) {
	var refused *Refused
	if c.s.o.Budget != nil && h.body > lean.Uncounted {
		if refused = c.acquire(h); refused == nil {
			j.counted = h.body
		}
	}
	if size := h.body + h.attached; size > len(c.in.buffered()) {
		if err := c.limitRead(time.Now().Add(lean.Arrival(size, c.s.o.Stall))); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return refused, c.in.skip(h.body + h.attached)
	}
	var err error
	if j.buf, err = c.in.into(j.buf[:0], h.body); err != nil {
		return nil, err
	}
	return nil, c.in.skip(h.attached)
}

// acquire asks for the memory of a request.
func (c *conn) acquire(h header) *Refused {
	ctx, cancel := context.WithTimeout(c.s.taking, c.s.o.Call)
	defer cancel()
	if err := c.s.o.Budget.Acquire(ctx, h.body); err != nil {
		return &Refused{Code: CodeBusy, Message: status.Convert(err).Message()}
	}
	return nil
}

// admit counts a call that was read among those in progress, and makes its context.
func (c *conn) admit(j *job) {
	c.slots <- struct{}{} // Its calls end within their bounds.
	c.calls.Add(1)
	j.began = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	j.ctx.BeginDetached(c.s.ctx, j.began.Add(c.s.o.Call))
	j.at = len(c.running)
	c.running = append(c.running, j)
	if c.s.ctx.Err() != nil { // Stop has cut off the others already.
		j.ctx.End(context.Canceled)
	}
}

// run works on a call that was admitted.
func (c *conn) run(j *job) {
	defer func() {
		j.free()
		<-c.slots
		c.calls.Done()
	}()
	refused := j.answer()
	c.done(j)
	now := time.Now()
	if name := c.s.o.Name(j.function); name != "" {
		c.s.o.Observe(method(name), now.Sub(j.began))
	}
	if refused != nil {
		c.s.refusals.tell(c.socket.RemoteAddr(), j.function, refused)
		j.out = refusal(j.out, j.seq, refused)
	} else if len(c.slots) == 1 {
		c.peer.answered(func(as calls.Version) calls.Versions { return c.s.o.Readers(j.function, as) }, now)
	}
	_ = c.out.Send(j.out) // An error has ended the connection, and that the calls.
}

// done is the opposite of admit, once the call is answered.
func (c *conn) done(j *job) {
	c.mu.Lock()
	last := len(c.running) - 1
	c.running[j.at] = c.running[last]
	c.running[j.at].at = j.at
	c.running[last] = nil
	c.running = c.running[:last]
	c.mu.Unlock()
}

// giveUp cancels the calls in progress.
func (c *conn) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.running {
		j.ctx.End(context.Canceled)
	}
}
