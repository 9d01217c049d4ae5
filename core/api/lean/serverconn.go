package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// serverConn is one connection of a client.
type serverConn struct {
	s      *Server
	conn   net.Conn
	codec  Codec
	out    *framed.Outbox
	in     frameReader   // used by the goroutine that reads
	until  time.Time     // the read deadline, used by the goroutine that reads
	slots  chan struct{} // one token for each call in progress
	calls  sync.WaitGroup
	relief framed.Relief
	over   chan struct{} // closed at the end
	// greeted is called once the prefaces are exchanged.
	greeted func(goAway func())

	mu    sync.Mutex
	under map[uint32]*job // calls that the client may give up
}

func newServerConn(s *Server, conn net.Conn) (*serverConn, error) {
	out, err := framed.NewOutbox(conn, s.limits.Stall, 2*s.limits.Frame)
	if err != nil {
		return nil, err
	}
	codec := s.Codec
	if codec == nil {
		codec = plain{}
	}
	c := &serverConn{
		s: s, conn: conn, codec: codec, out: out, slots: make(chan struct{}, s.limits.Calls), over: make(chan struct{}), under: map[uint32]*job{},
	}
	c.relief.TakeOver = c.readOn
	c.in.ask = s.Budget != nil
	return c, c.in.open(conn, s.limits)
}

// serve reads calls until the connection ends; calls in progress are answered if Stop ended it,
// and cancelled otherwise.
func (c *serverConn) serve() {
	if err := c.greet(); err != nil {
		c.finish(err)
		return
	}
	c.readOn()
	<-c.over
}

// readOn reads until the connection ends, or another goroutine reads.
func (c *serverConn) readOn() {
	for {
		err := c.await()
		relieved := false
		if err == nil {
			relieved, err = c.next()
		}
		if relieved {
			return
		}
		if err != nil {
			c.finish(err)
			return
		}
	}
}

// finish ends the connection, for the last goroutine that read it. Stop ends only the reading; the error of a
// connection that is gone is another one, and its calls end.
func (c *serverConn) finish(err error) {
	if !c.isStopping() || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.giveUp(0)
	}
	c.calls.Wait()
	c.out.Close(err)
	c.relief.Stop()
	close(c.over)
}

// greet exchanges the prefaces.
func (c *serverConn) greet() error {
	if err := c.limitRead(time.Now().Add(c.s.limits.Stall)); err != nil {
		return err
	}
	var got [len(preface) - foreign.Least]byte
	if _, err := io.ReadFull(c.in.buffered, got[:]); err != nil {
		return err
	}
	if string(got[:]) != preface[foreign.Least:] {
		return errFrame
	}
	if err := c.limitRead(time.Time{}); err != nil {
		return err
	}
	if err := c.out.Send([]byte(preface)); err != nil {
		return err
	}
	c.greeted(c.sendGoAway)
	return nil
}

// sendGoAway tells the client goodbye.
func (c *serverConn) sendGoAway() {
	_ = c.out.Send(bare(head{kind: kindBye})) // The goroutine that reads sees the end of the connection.
}

// await waits for the next frame. The connection ends if none comes while no call is in progress:
// the server tells the client, which has some time to close it. await moves the limit of the wait
// only when a quarter of it has passed, so that successive calls do not pay for it.
func (c *serverConn) await() error {
	for said := false; c.s.limits.Idle > 0; {
		limit := c.s.limits.Idle
		if said {
			limit = c.s.limits.Stall
		}
		if now := time.Now(); said || c.until.Sub(now) < limit-limit/4 {
			if err := c.limitRead(now.Add(limit)); err != nil {
				return err
			}
		}
		_, err := c.in.buffered.Peek(1)
		switch {
		case err == nil:
			return nil
		case !busypoll.IsTimeout(err) || c.isStopping() || said:
			return err
		case len(c.slots) == 0:
			said = true
			if err := c.out.Send(bare(head{kind: kindBye})); err != nil {
				return err
			}
		}
		c.until = time.Time{}
	}
	return nil
}

// limitRead bounds the wait for bytes, unless Stop has ended it.
func (c *serverConn) limitRead(until time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.stopping {
		return net.ErrClosed
	}
	c.until = until
	return c.conn.SetReadDeadline(until)
}

func (c *serverConn) isStopping() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.stopping
}

// inline is the largest request, in bytes, that is worked on where it was read. Below, to start a
// goroutine costs more than the call; above, the next ones should be read meanwhile.
const inline = 1 << 10

// next takes one frame. It reports whether another goroutine reads now.
func (c *serverConn) next() (relieved bool, err error) {
	h, body, err := c.in.next()
	for busypoll.IsTimeout(err) && !c.isStopping() {
		// The wait for a frame ended in the middle of one. The rest has some time, too.
		if err = c.limitRead(time.Now().Add(c.s.limits.Stall)); err == nil {
			before := c.in.got()
			if h, body, err = c.in.next(); c.in.got() == before {
				break
			}
		}
	}
	if errors.Is(err, errLarge) {
		return false, c.large(h)
	}
	if err != nil {
		return false, err
	}
	switch h.kind {
	case kindCall:
	case kindGiveUp:
		c.giveUp(h.call)
		c.in.done()
		return false, nil
	default:
		return false, errFrame
	}
	j := takeJob()
	j.c, j.h = c, h
	j.buf = append(j.buf[:0], body...)
	c.in.done()
	if err := c.admit(j); err != nil {
		return false, err
	}
	if c.in.poll = len(j.buf) <= inline && c.in.buffered.Buffered() == 0; !c.in.poll {
		go j.run() // On this processor, once it is free.
		return false, nil
	}
	return c.relief.During(j.run), nil
}

// admit counts a call that was read among those in progress.
func (c *serverConn) admit(j *job) error {
	c.slots <- struct{}{} // Its calls end within their bounds.
	c.calls.Add(1)
	if !c.enter(j) {
		c.calls.Done()
		<-c.slots
		return fmt.Errorf("%w: call %d is in progress already", errFrame, j.h.call)
	}
	return nil
}

// enter makes the context of a call, before the next frame is read, because that frame may cancel
// the call. It returns false when a call of that number is in progress.
func (c *serverConn) enter(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under[j.h.call] != nil {
		return false
	}
	limit := c.s.limits.Call
	if asked := time.Duration(j.h.millis) * time.Millisecond; asked > 0 && (limit <= 0 || asked < limit) {
		limit = asked
	}
	if limit > 0 {
		j.ctx.BeginDetached(c.s.ctx, time.Now().Add(limit))
	} else {
		j.ctx.Begin(c.s.ctx)
	}
	c.under[j.h.call] = j
	if c.s.ctx.Err() != nil { // Stop has cut off the others already.
		j.ctx.End(context.Canceled)
	}
	return true
}

// giveUp cancels a call, or all with 0.
func (c *serverConn) giveUp(call uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call != 0 {
		if j := c.under[call]; j != nil {
			j.ctx.End(context.Canceled)
		}
		return
	}
	for _, j := range c.under {
		j.ctx.End(context.Canceled)
	}
}

// job is one call.
type job struct {
	c   *serverConn
	h   head
	buf []byte // the name of the method and the request
	out []byte // the answer
	ctx callctx.Call
	// counted is how many bytes of the request the server's budget holds memory for.
	counted int
}

var jobs = sync.Pool{New: func() any { return new(job) }}

func takeJob() *job { return jobs.Get().(*job) } //nolint:forcetypeassert // Nothing else is in the pool.

// free gives back a call whose context no goroutine uses any more.
func (j *job) free() {
	if !j.ctx.Finish() {
		return
	}
	if cap(j.buf) > maxKept {
		j.buf = nil
	}
	if cap(j.out) > maxKept {
		j.out = nil
	}
	j.c, j.h, j.counted = nil, head{}, 0
	jobs.Put(j)
}

func (j *job) run() {
	c, counted := j.c, j.counted
	defer func() {
		j.free()
		if counted > 0 {
			c.s.Budget.Release(counted)
		}
		<-c.slots
		c.calls.Done()
	}()
	resp, err := j.invoke(&j.ctx)
	c.mu.Lock()
	delete(c.under, j.h.call)
	c.mu.Unlock()
	j.encode(resp, err)
	_ = c.out.Send(j.out) // An error has ended the connection, and that the calls.
}

// invoke calls the method. A panic is the interceptors' to catch.
func (j *job) invoke(ctx context.Context) (any, error) {
	name, request := j.buf[:j.h.small], j.buf[j.h.small:]
	m := j.c.s.methods[string(name)]
	if m == nil {
		return nil, status.Errorf(codes.Unimplemented, "unknown method %q", name)
	}
	decode := func(into any) error {
		message, ok := into.(proto.Message)
		if !ok {
			return status.Errorf(codes.Internal, "%T is not a message", into)
		}
		if err := j.c.codec.Decode(request, message); err != nil {
			return status.Errorf(codes.InvalidArgument, "the request cannot be decoded: %v", err)
		}
		return nil
	}
	return m.call(m.impl, ctx, decode, j.c.s.chain)
}

// encode makes the frame of the answer.
func (j *job) encode(resp any, err error) {
	if err == nil {
		if err = j.encodeOK(resp); err == nil {
			return
		}
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	code := st.Code()
	if code == codes.OK || code > codes.Unauthenticated {
		code = codes.Unknown
	}
	j.out = begin(j.out[:0], head{call: j.h.call, kind: kindAnswer, small: uint8(code)})
	if full, err := (proto.MarshalOptions{}).MarshalAppend(j.out, st.Proto()); err == nil && len(full) <= j.c.s.limits.Frame {
		j.out = full
	}
	seal(j.out)
}

func (j *job) encodeOK(resp any) error {
	message, ok := resp.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "the method answered with a %T", resp)
	}
	j.out = begin(j.out[:0], head{call: j.h.call, kind: kindAnswer})
	full, err := j.c.codec.Append(j.out, message)
	if err != nil {
		return status.Errorf(codes.Internal, "the answer cannot be encoded: %v", err)
	}
	j.out = full
	if len(full) > j.c.s.limits.Frame {
		return status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, at most %d are allowed", len(full), j.c.s.limits.Frame)
	}
	seal(full)
	return nil
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

var errGone = errors.New("the connection ended")
