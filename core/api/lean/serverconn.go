package lean

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// readBuffer is what is read of a connection at a time.
const readBuffer = 16 << 10

// serverConn is one connection of a client.
type serverConn struct {
	s     *Server
	conn  net.Conn
	codec Codec
	out   *outbox
	in    *bufio.Reader
	slots chan struct{} // of calls under way
	calls sync.WaitGroup

	mu    sync.Mutex
	under map[uint32]context.CancelFunc // calls that the client may give up
}

func newServerConn(s *Server, conn net.Conn) (*serverConn, error) {
	out, err := newOutbox(conn, s.limits)
	if err != nil {
		return nil, err
	}
	codec := s.Codec
	if codec == nil {
		codec = plain{}
	}
	return &serverConn{
		s: s, conn: conn, codec: codec, out: out, in: bufio.NewReaderSize(conn, readBuffer), slots: make(chan struct{}, s.limits.Calls),
		under: map[uint32]context.CancelFunc{},
	}, nil
}

// serve reads calls until the connection ends; calls under way are answered if Stop ended
// it, and cancelled otherwise.
func (c *serverConn) serve() {
	err := c.greet()
	for err == nil {
		if err = c.await(); err == nil {
			err = c.next()
		}
	}
	if !c.isStopping() {
		c.giveUp(0)
	}
	c.calls.Wait()
	c.out.close(err)
}

// greet exchanges the prefaces.
func (c *serverConn) greet() error {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.s.limits.Stall)); err != nil {
		return err
	}
	var got [len(preface) - sniffed]byte
	if _, err := io.ReadFull(c.in, got[:]); err != nil {
		return err
	}
	if string(got[:]) != preface[sniffed:] {
		return errFrame
	}
	if err := c.limitRead(time.Time{}); err != nil {
		return err
	}
	return c.out.send([]byte(preface))
}

// await waits for the next frame. One that does not come while nothing is under way ends
// the connection: the client is told, and has some time to close it.
func (c *serverConn) await() error {
	for said := false; c.s.limits.Idle > 0; {
		limit := c.s.limits.Idle
		if said {
			limit = c.s.limits.Stall
		}
		if err := c.limitRead(time.Now().Add(limit)); err != nil {
			return err
		}
		_, err := c.in.Peek(1)
		var late net.Error
		switch {
		case err == nil:
			return c.limitRead(time.Time{})
		case !errors.As(err, &late) || !late.Timeout() || c.isStopping() || said:
			return err
		case len(c.slots) == 0:
			said = true
			if err := c.out.send(bare(head{kind: kindBye})); err != nil {
				return err
			}
		}
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
	return c.conn.SetReadDeadline(until)
}

func (c *serverConn) isStopping() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.stopping
}

// next takes one frame.
func (c *serverConn) next() error {
	var scratch [lengthSize + headSize]byte
	h, rest, err := readHead(c.in, c.s.limits.Frame, &scratch)
	if err != nil {
		return err
	}
	switch h.kind {
	case kindCall:
	case kindGiveUp:
		c.giveUp(h.call)
		return nil
	default:
		return errFrame
	}
	j := takeJob()
	j.c, j.h = c, h
	j.buf = grow(j.buf, rest)
	if _, err := io.ReadFull(c.in, j.buf); err != nil {
		j.free()
		return err
	}
	c.slots <- struct{}{} // Its calls end within their bounds.
	c.calls.Add(1)
	go j.run(c.enter(h))
	return nil
}

// enter makes the context of a call, before the next frame is read: that may give it up.
func (c *serverConn) enter(h head) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.s.ctx)
	if h.millis > 0 {
		cancel()
		ctx, cancel = context.WithTimeout(c.s.ctx, time.Duration(h.millis)*time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under[h.call] = cancel
	return ctx, cancel
}

// giveUp cancels a call, or all with 0.
func (c *serverConn) giveUp(call uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, cancel := range c.under {
		if id == call || call == 0 {
			cancel()
		}
	}
}

// job is one call.
type job struct {
	c   *serverConn
	h   head
	buf []byte // the name of the method and the request
	out []byte // the answer
}

var jobs = sync.Pool{New: func() any { return new(job) }}

func takeJob() *job { return jobs.Get().(*job) } //nolint:forcetypeassert // Nothing else is in the pool.

// maxKept is the largest buffer that is kept for the next call.
const maxKept = 256 << 10

func (j *job) free() {
	if cap(j.buf) > maxKept {
		j.buf = nil
	}
	if cap(j.out) > maxKept {
		j.out = nil
	}
	*j = job{buf: j.buf, out: j.out}
	jobs.Put(j)
}

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func (j *job) run(ctx context.Context, cancel context.CancelFunc) {
	c := j.c
	defer func() {
		j.free()
		<-c.slots
		c.calls.Done()
	}()
	defer cancel()
	resp, err := j.invoke(ctx)
	c.mu.Lock()
	delete(c.under, j.h.call)
	c.mu.Unlock()
	j.encode(resp, err)
	_ = c.out.send(j.out) // An error has ended the connection, and that the calls.
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
