package lean

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// session is one connection to a server.
type session struct {
	conn   net.Conn
	out    *outbox
	in     *bufio.Reader
	head   [lengthSize + headSize]byte // of what is being read
	limits Limits
	codec  Codec
	ended  atomic.Bool
	over   chan struct{} // closed when the reader ended
	room   chan struct{} // holds a token for each call under way

	mu    sync.Mutex
	last  uint32
	calls map[uint32]*pending
	why   error // of the end
	bye   bool  // the server wants no more calls here
}

// pending is a call that waits for its answer.
type pending struct {
	ready chan struct{} // gets a value with the answer
	reply proto.Message
	err   error
}

var waiters = sync.Pool{New: func() any { return &pending{ready: make(chan struct{}, 1)} }}

// errOther says that the server speaks another protocol.
type errOther struct{ err error }

func (e *errOther) Error() string { return "the server speaks another protocol: " + e.err.Error() }
func (e *errOther) Unwrap() error { return e.err }

// newSession exchanges the prefaces and starts to read. It takes the connection over.
func newSession(ctx context.Context, conn net.Conn, l Limits, codec Codec) (*session, error) {
	s := &session{
		conn: conn, limits: l, codec: codec, in: bufio.NewReaderSize(conn, readBuffer), over: make(chan struct{}),
		room: make(chan struct{}, l.Calls), calls: map[uint32]*pending{},
	}
	err := s.greet(ctx)
	if err == nil {
		s.out, err = newOutbox(conn, l)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go s.read()
	return s, nil
}

func (s *session) greet(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		if err := s.conn.SetDeadline(end); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(s.conn, preface); err != nil {
		return err
	}
	var got [len(preface)]byte
	if _, err := io.ReadFull(s.in, got[:]); err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return fmt.Errorf("it does not answer: %w", err)
		}
		return &errOther{err} // It closed the connection on seeing the preface.
	}
	if string(got[:]) != preface {
		return &errOther{fmt.Errorf("it began with %q", got)}
	}
	return s.conn.SetDeadline(time.Time{})
}

// alive reports whether calls may begin.
func (s *session) alive() bool {
	if s.ended.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.bye
}

// frames are the buffers of requests.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// invoke does one call.
func (s *session) invoke(e *wait, method string, args, reply any) error {
	request, ok := args.(proto.Message)
	answer, ok2 := reply.(proto.Message)
	if !ok || !ok2 || len(method) > maxMethod {
		return status.Errorf(codes.Internal, "%s takes a %T and gives a %T", method, args, reply)
	}
	select {
	case s.room <- struct{}{}:
	case <-e.caller:
		return e.ended(callerEnd)
	case <-e.own:
		return e.ended(ownEnd)
	case <-e.limit.C:
		return e.ended(limitEnd)
	}
	defer func() { <-s.room }()
	w := waiters.Get().(*pending) //nolint:forcetypeassert // Nothing else is in the pool.
	w.reply, w.err = answer, nil
	id, err := s.begin(w)
	if err != nil {
		return err
	}
	defer s.leave()
	if err := s.ask(e, id, method, request); err != nil {
		if !s.withdraw(id) {
			<-w.ready // The reader has it in hand.
		}
		return err
	}
	var which end
	select {
	case <-w.ready:
		return w.take()
	case <-e.caller:
		which = callerEnd
	case <-e.own:
		which = ownEnd
	case <-e.limit.C:
		which = limitEnd
	}
	if s.withdraw(id) {
		s.say(head{call: id, kind: kindGiveUp})
		return e.ended(which)
	}
	<-w.ready
	return w.take()
}

// take returns how a call went whose answer is there, and gives the waiter back.
func (w *pending) take() error {
	err := w.err
	w.reply, w.err = nil, nil
	waiters.Put(w)
	return err
}

// begin numbers a call.
func (s *session) begin(w *pending) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bye {
		return 0, errBye
	}
	if s.why != nil {
		return 0, lost(s.why)
	}
	for {
		s.last++
		if s.last != 0 && s.calls[s.last] == nil {
			break
		}
	}
	s.calls[s.last] = w
	return s.last, nil
}

// errBye is why a call did not begin on a connection that the server has no more use for.
var errBye = errors.New("the server ends this connection")

// leave closes a connection that the server wants to end, once nothing is under way.
func (s *session) leave() {
	s.mu.Lock()
	idle := s.bye && len(s.calls) == 0
	s.mu.Unlock()
	if idle {
		_ = s.conn.Close() // The reader sees it.
	}
}

// withdraw takes a call back, false where its answer is there or on its way to the caller.
func (s *session) withdraw(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting := s.calls[id]
	delete(s.calls, id)
	return waiting
}

// ask sends a call.
func (s *session) ask(e *wait, id uint32, method string, request proto.Message) error {
	h := head{call: id, kind: kindCall, small: uint8(len(method))}
	if !e.until.IsZero() {
		left := time.Until(e.until)
		if left <= 0 {
			return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
		}
		h.millis = uint32(min(int64(left/time.Millisecond)+1, 1<<31))
	}
	p := frames.Get().(*[]byte) //nolint:forcetypeassert // Nothing else is in the pool.
	defer func() {
		if cap(*p) <= maxKept {
			frames.Put(p)
		}
	}()
	b := append(begin((*p)[:0], h), method...)
	b, err := s.codec.Append(b, request)
	if err != nil {
		return status.Errorf(codes.Internal, "the request cannot be encoded: %v", err)
	}
	*p = b
	if len(b)-lengthSize > s.limits.Frame {
		return status.Errorf(codes.ResourceExhausted, "the request has %d bytes, at most %d are allowed", len(b), s.limits.Frame)
	}
	seal(b)
	if err := s.out.send(b); err != nil {
		return lost(err)
	}
	return nil
}

// say sends a frame that is only a head.
func (s *session) say(h head) {
	_ = s.out.send(bare(h)) // The reader sees the end of the connection too.
}

// read takes answers until the connection ends, and fails what still waits then.
func (s *session) read() {
	defer close(s.over)
	var err error
	var buf []byte
	for err == nil {
		buf, err = s.next(buf)
	}
	s.ended.Store(true)
	s.out.close(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err
	for id, w := range s.calls {
		delete(s.calls, id)
		w.err = lost(err)
		w.ready <- struct{}{}
	}
}

// next takes one answer; buf is used again.
func (s *session) next(buf []byte) ([]byte, error) {
	h, rest, err := readHead(s.in, s.limits.Frame, &s.head)
	if err != nil {
		return buf, err
	}
	if h.kind == kindBye {
		s.mu.Lock()
		s.bye = true
		s.mu.Unlock()
		s.leave()
		return buf, nil
	}
	if h.kind != kindAnswer {
		return buf, errFrame
	}
	body, err := s.in.Peek(min(rest, readBuffer))
	whole := rest <= readBuffer
	if whole && err != nil {
		return buf, err
	}
	if !whole {
		buf = grow(buf[:0], rest)
		if _, err := io.ReadFull(s.in, buf); err != nil {
			return buf, err
		}
		body = buf
	}
	s.deliver(h, body)
	if whole {
		_, err = s.in.Discard(rest)
		return buf, err
	}
	if cap(buf) > maxKept {
		buf = nil
	}
	return buf, nil
}

// deliver hands an answer to its caller. One for a call that was given up is nobody's.
func (s *session) deliver(h head, body []byte) {
	s.mu.Lock()
	w := s.calls[h.call]
	delete(s.calls, h.call)
	s.mu.Unlock()
	if w == nil {
		return
	}
	if codes.Code(h.small) == codes.OK {
		if err := s.codec.Decode(body, w.reply); err != nil {
			w.err = status.Errorf(codes.Internal, "the answer cannot be decoded: %v", err)
		}
	} else {
		w.err = refused(codes.Code(h.small), body)
	}
	w.ready <- struct{}{}
}

// refused is the error of an answer with another code than OK.
func refused(code codes.Code, body []byte) error {
	var p spb.Status
	if err := proto.Unmarshal(body, &p); err != nil || codes.Code(p.GetCode()) != code {
		return status.Error(code, "the server gave no reason that can be read")
	}
	return status.ErrorProto(&p)
}

func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = errGone
	}
	return status.Errorf(codes.Unavailable, "the connection to the server is lost: %v", err)
}

// end closes the connection and waits for the reader.
func (s *session) end(why error) {
	s.out.close(why)
	<-s.over
}
