package framed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// conn is one connection of a client. The goroutine that reads a small request works on it, if nothing
// else was sent. If the call lasts for some milliseconds, another goroutine reads on (relief), so that
// no call waits for another one for long, and so that the end of the connection is seen.
type conn struct {
	calling
	ended    func(*conn)
	of       foreign.Protocol
	protocol Protocol
	shape    Shape
	limits   Limits
	client   Client
	tracked  *trackedConn
	socket   net.Conn
	out      *Outbox
	slots    chan struct{} // one token for each call in progress
	calls    sync.WaitGroup
	relief   relief

	// Of the goroutine that reads:

	in    Reader
	poll  busypoll.Poller
	until time.Time // the read deadline
	known bool      // the client has begun as it has to

	mu      sync.Mutex
	retired bool // it reads no more, and ends once no call is in progress
	running []*Call
}

// calling is what all connections of a server have in common.
type calling struct {
	budget Budget          // nil for none
	ctx    context.Context // ends when calls are cut off
	taking context.Context // ends when no more calls are taken
}

// open makes ready what reads and writes. first are the bytes that were read before.
func (c *conn) open(first []byte) (err error) {
	c.shape, c.limits = c.protocol.Shape(), c.protocol.Limits()
	c.slots = make(chan struct{}, c.limits.Calls)
	c.relief.takeOver = c.readOn
	if c.out, err = NewOutbox(c.socket, c.limits.Stall, 2*c.limits.Frame); err != nil {
		return err
	}
	c.poll.For = c.limits.Poll
	return c.in.Open(c.socket, c.shape.Buffer, first)
}

// Read implements Wire.
func (c *conn) Read(n int) ([]byte, error) {
	if err := c.need(n); err != nil {
		return nil, err
	}
	b := c.in.Buffered()[:n]
	c.in.Drop(n)
	return b, nil
}

// Send implements Wire.
func (c *conn) Send(b []byte) error { return c.out.Send(b) }

// serve reads calls until the connection ends, or another goroutine reads.
func (c *conn) serve() {
	c.client = c.protocol.Open(c.socket.RemoteAddr())
	known, err := c.client.Greet(c)
	if err != nil {
		c.finish(err)
		return
	}
	if known {
		c.begun()
	}
	c.readOn()
}

// begun notes that the client has begun as it has to.
func (c *conn) begun() {
	c.known = true
	c.tracked.greeted(c.goAway)
	security.OnLeave(c.socket, c.goAway)
}

// goAway ends the connection for the sake of another one.
func (c *conn) goAway() {
	if bye := c.client.Bye(); bye != nil {
		_ = c.out.Send(bye) // The goroutine that reads sees the end of the connection.
	} else {
		c.retire()
	}
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
	last := c.client.Last(err)
	if last == nil && (!errors.Is(err, os.ErrDeadlineExceeded) || !c.isRetired()) {
		c.giveUp()
	}
	c.calls.Wait()
	if last != nil {
		foreign.TurnAway(c.socket, last)
	}
	_ = c.out.Close(err)
	c.relief.stop()
	c.client.Left(byClient)
	c.tracked.left()
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

// await waits for the first byte of a frame. The connection ends if none comes while no call is in
// progress: a client that can be told is told first, and has some time to close it. await moves the
// limit of the wait only when a quarter of it has passed, so that successive calls do not pay for it.
func (c *conn) await() error {
	for said := false; len(c.in.Buffered()) == 0; {
		if err := c.limitIdle(said); err != nil {
			return err
		}
		err := c.in.Need(1)
		switch {
		case err == nil:
		case !busypoll.IsTimeout(err) || c.isRetired() || said:
			return err
		case len(c.slots) == 0:
			bye := c.client.Bye()
			if bye == nil {
				return err
			}
			said = true
			if err := c.out.Send(bye); err != nil {
				return err
			}
			fallthrough
		default:
			c.until = time.Time{} // A call is in progress, or the client gets some more time.
		}
	}
	return nil
}

// limitIdle bounds the wait for a frame: for a client that was told goodbye, by less.
func (c *conn) limitIdle(said bool) error {
	limit := c.limits.Idle
	if limit <= 0 {
		if c.until.IsZero() {
			return nil
		}
		return c.limitRead(time.Time{})
	}
	if said {
		limit = c.limits.Stall
	}
	now := time.Now()
	if left := c.until.Sub(now); left >= limit-limit/4 && left <= limit {
		return nil
	}
	return c.limitRead(now.Add(limit))
}

// need waits for the rest of what has to come at once.
func (c *conn) need(n int) error {
	if len(c.in.Buffered()) >= n {
		return nil
	}
	if err := c.limitRead(time.Now().Add(c.limits.Stall)); err != nil {
		return err
	}
	return c.in.Need(n)
}

// next takes one frame. It reports whether another goroutine reads now.
func (c *conn) next() (relieved bool, err error) {
	if err := c.await(); err != nil {
		return false, err
	}
	if err := c.need(c.shape.Header); err != nil {
		return false, err
	}
	f, err := c.protocol.Parse(c.in.Buffered()[:c.shape.Header], c.limits.Frame)
	if err != nil {
		return false, err
	}
	c.in.Drop(c.shape.Header)
	if f.GiveUp {
		c.giveUpOne(f.Number)
		return false, nil
	}
	c.client.Asked()
	j := newCall(f, c.slots)
	refused, err := c.body(j)
	if err == nil && !c.known {
		c.begun()
	}
	if err == nil && refused != nil {
		c.client.Refuse(j, refused)
		err = c.out.Send(j.Out)
	} else if err == nil {
		err = c.admit(j)
	}
	if err != nil || refused != nil {
		j.free()
		return false, err
	}
	c.in.Poller = nil
	if len(j.In) > inline || len(c.in.Buffered()) > 0 {
		go c.run(j) // On this processor, once it is free.
		return false, nil
	}
	c.in.Poller = &c.poll
	return c.relief.during(func() { c.run(j) }), nil
}

// body takes what follows the header. A large body waits for memory first; the request is refused where
// there is none. An error ends the connection.
func (c *conn) body(j *Call) (refused, err error) {
	if c.budget != nil && j.Body > Uncounted {
		if refused = c.acquire(j.Frame); refused == nil {
			j.budget = c.budget
		}
	}
	// The connection ends where the request is not there in time, so that its memory is free.
	if size := j.Body + j.Attached; size > len(c.in.Buffered()) {
		if err := c.limitRead(time.Now().Add(Arrival(size, c.limits.Stall))); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return refused, c.in.Skip(j.Body + j.Attached)
	}
	if j.In = j.In[:0]; j.budget != nil {
		j.In = slices.Grow(j.In, j.Body)
	}
	if j.In, err = c.in.Into(j.In, j.Body); err != nil {
		return nil, err
	}
	return nil, c.in.Skip(j.Attached)
}

// acquire asks for the memory of a request, for as long as its caller waits.
func (c *conn) acquire(f Frame) error {
	limit := admission
	if c.limits.Call > 0 {
		limit = c.limits.Call
	}
	if f.Wait > 0 {
		limit = min(limit, f.Wait)
	}
	ctx, cancel := context.WithTimeout(c.taking, limit)
	defer cancel()
	return c.budget.Acquire(ctx, f.Body)
}

// errTwice is the error of a client that gave two calls in progress one number.
var errTwice = errors.New("a call of that number is in progress")

// admit counts a call that was read among those in progress, and makes its context, before the next
// frame is read, because that frame may cancel the call.
func (c *conn) admit(j *Call) error {
	c.slots <- struct{}{} // Its calls end within their bounds.
	j.Began = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shape.Unique && c.find(j.Number) != nil {
		<-c.slots
		return fmt.Errorf("%w: %d", errTwice, j.Number)
	}
	c.calls.Add(1)
	limit := c.limits.Call
	if j.Wait > 0 && (limit <= 0 || j.Wait < limit) {
		limit = j.Wait
	}
	if limit > 0 {
		j.ctx.BeginDetached(c.ctx, j.Began.Add(limit))
	} else {
		j.ctx.Begin(c.ctx)
	}
	j.at = len(c.running)
	c.running = append(c.running, j)
	if c.ctx.Err() != nil { // Stop has cut off the others already.
		j.ctx.End(context.Canceled)
	}
	return nil
}

// find has mu held.
func (c *conn) find(number uint32) *Call {
	for _, j := range c.running {
		if j.Number == number {
			return j
		}
	}
	return nil
}

// run works on a call that was admitted.
func (c *conn) run(j *Call) {
	defer func() {
		j.free()
		<-c.slots
		c.calls.Done()
	}()
	c.client.Answer(j)
	c.done(j)
	_ = c.out.Send(j.Out) // An error has ended the connection, and that the calls.
}

// done is the opposite of admit, once the call is answered.
func (c *conn) done(j *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.running) - 1
	c.running[j.at] = c.running[last]
	c.running[j.at].at = j.at
	c.running[last] = nil
	c.running = c.running[:last]
}

// giveUpOne cancels a call, if it is in progress.
func (c *conn) giveUpOne(number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.find(number); j != nil {
		j.ctx.End(context.Canceled)
	}
}

// giveUp cancels the calls in progress.
func (c *conn) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.running {
		j.ctx.End(context.Canceled)
	}
}
