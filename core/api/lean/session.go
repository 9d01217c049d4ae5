package lean

import (
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

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// session is one connection to a server.
type session struct {
	addr   string
	conn   net.Conn
	out    *framed.Outbox
	in     frameReader // used by the goroutine that has the turn
	limits framed.Limits
	codec  Codec
	ended  atomic.Bool
	room   chan struct{} // holds a token for each call in flight
	turn   turn

	mu    sync.Mutex
	last  uint32
	calls map[uint32]*pending
	// pollers are those of the methods. The answer to one that waits for another process comes later than a poll lasts,
	// and would be polled for in vain each time if the answers to others made up for it.
	pollers map[string]*busypoll.Poller
	why     error // of the end
	bye     bool  // no more calls begin here: the server wants none, or the certificates end
}

// pending is a call that waits for its answer.
type pending struct {
	ready  chan struct{} // gets a value with the answer
	reply  proto.Message
	err    error
	poller *busypoll.Poller
}

var waiters = sync.Pool{New: func() any { return &pending{ready: make(chan struct{}, 1)} }}

// newSession exchanges the prefaces and starts to read. It takes the connection over. dial makes
// further ones to the server, to find out what else it speaks.
func newSession(ctx context.Context, conn net.Conn, dial foreign.Dial, l framed.Limits, codec Codec) (*session, error) {
	samehost.Tune(conn)
	conn = busypoll.Adopt(conn, l.Poll)
	s := &session{
		conn: conn, limits: l, codec: codec, room: make(chan struct{}, l.Calls), turn: newTurn(), calls: map[uint32]*pending{},
		pollers: map[string]*busypoll.Poller{},
	}
	err := s.in.open(conn, l)
	if err == nil {
		err = s.greet(ctx, dial)
	}
	if err == nil {
		s.out, err = framed.NewOutbox(conn, l.Stall, 2*l.Frame)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go s.watch()
	security.OnLeave(conn, s.depart)
	return s, nil
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
	id, err := s.begin(w, method)
	if err != nil {
		return err
	}
	defer s.leave()
	if err := s.ask(e, id, method, request); err != nil {
		if !s.withdraw(id) {
			<-w.ready // A reader has it in hand.
		}
		return err
	}
	which, answered := s.await(e, w)
	if answered {
		return w.take()
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
	w.reply, w.err, w.poller = nil, nil, nil
	waiters.Put(w)
	return err
}

// begin numbers a call of a method.
func (s *session) begin(w *pending, method string) (uint32, error) {
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
	if w.poller = s.pollers[method]; w.poller == nil {
		w.poller = &busypoll.Poller{For: s.limits.Poll}
		s.pollers[method] = w.poller
	}
	s.calls[s.last] = w
	s.turn.begun++
	return s.last, nil
}

// errBye is why a call did not begin on a connection that is to end.
var errBye = errors.New("this connection is to end")

// depart has further calls take another connection.
func (s *session) depart() {
	s.mu.Lock()
	s.bye = true
	s.mu.Unlock()
	s.leave()
}

// leave closes a connection that is to end, once no call is in flight.
func (s *session) leave() {
	s.mu.Lock()
	idle := s.bye && len(s.calls) == 0
	s.mu.Unlock()
	if idle {
		_ = s.conn.Close() // The next reader sees it, the watcher at the latest.
	}
}

// withdraw takes a call back, false where its answer is there or on its way to the caller.
func (s *session) withdraw(id uint32) bool {
	return s.remove(id) != nil
}

// remove ends the wait of a call, nil where it had ended.
func (s *session) remove(id uint32) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.calls[id]
	delete(s.calls, id)
	return w
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
		if cap(*p) <= framed.MaxKept {
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
	if err := s.out.Send(b); err != nil {
		s.ended.Store(true) // Perhaps no goroutine reads just now that would notice.
		return lost(err)
	}
	return nil
}

// say sends a frame that is only a head.
func (s *session) say(h head) {
	_ = s.out.Send(bare(h)) // The reader sees the end of the connection too.
}

// next takes one frame. The caller has the turn.
func (s *session) next() error {
	h, body, err := s.in.next()
	if err != nil {
		return err
	}
	switch h.kind {
	case kindAnswer:
		s.deliver(h, body)
	case kindBye:
		s.depart()
	default:
		return errFrame
	}
	s.in.done()
	return nil
}

// deliver hands an answer to its caller. It drops an answer to a call that was given up.
func (s *session) deliver(h head, body []byte) {
	w := s.remove(h.call)
	if w == nil {
		return
	}
	if codes.Code(h.small) == codes.OK {
		if err := s.decode(body, w.reply); err != nil {
			w.err = status.Errorf(codes.Internal, "the answer cannot be decoded: %v", err)
		}
	} else {
		w.err = refused(codes.Code(h.small), body)
	}
	w.ready <- struct{}{}
}

// decode returns an error where the codec panics: the reading goroutine has the turn, and others
// wait for it.
func (s *session) decode(body []byte, reply proto.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.codec.Decode(body, reply)
}

// refused is the error of an answer with another code than OK.
func refused(code codes.Code, body []byte) error {
	var p spb.Status
	if err := proto.Unmarshal(body, &p); err != nil || codes.Code(p.GetCode()) != code {
		return status.Error(code, "the server gave no reason that can be read")
	}
	return status.ErrorProto(&p)
}

var errGone = errors.New("the connection ended")

func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = errGone
	}
	return status.Errorf(codes.Unavailable, "the connection to the server is lost: %v", err)
}
