package quic

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	quicgo "github.com/quic-go/quic-go"
)

// The regions that this side serves, each held by the requests at work on it.
type (
	region      = regionkit.Region[*serving]
	regionTable = regionkit.Table[*serving]
)

// Cut implements regionkit.Holder.
func (s *serving) Cut() { s.cut(wire.ReasonDraining) }

// acquire checks a request and gives the memory that it names, which stays in place until the
// region's Release; or the reason why not.
func (s *serving) acquire(q *wire.Request) (*region, []byte, wire.Reason) {
	kind := transport.Read
	if q.Type == wire.FrameWrite {
		kind = transport.Write
	}
	r, mem, why := s.c.n.regions.Acquire(regionkit.Request{
		Region: transport.RegionID(q.Region), Token: q.Token, Kind: kind, Offset: q.Offset, Length: uint64(q.Length),
		Grant: s.grant, By: s.c.subject,
	}, s)
	return r, mem, wire.ReasonOf(why)
}

// serving is one request of a peer: a stream. Its goroutine runs run; cut may be called by any.
type serving struct {
	c     *serverConn
	st    *quicgo.Stream
	limit time.Time
	grant *transport.Grant // what the request shows, nil for nothing

	mu  sync.Mutex
	why wire.Reason // of cut
}

func (s *serving) run() {
	c := s.c
	defer func() {
		c.lastUsed.Store(time.Now().UnixNano())
		c.busy.Add(-1)
	}()
	s.limit = time.Now().Add(c.n.cfg.OpTimeout)
	var head [wire.RequestSize]byte
	if err := s.readFull(head[:]); err != nil {
		s.drop(wire.ReasonSlow)
		return
	}
	observed()
	var q wire.Request
	if err := q.Decode(head[:]); err != nil {
		// One bad frame says that the peer speaks something else: nothing it sends can be trusted.
		c.n.stats.refuse(wire.ReasonBadFrame)
		c.n.log.Warn("closing a connection that sent garbage", "peer", c.quic.RemoteAddr().String(), "error", err)
		s.drop(wire.ReasonBadFrame)
		_ = c.quic.CloseWithError(code(wire.ReasonBadFrame), wire.ReasonBadFrame.Info().Label)
		return
	}
	if q.Shows {
		s.grant = new(transport.Grant)
		if err := s.readFull(s.grant[:]); err != nil {
			s.drop(wire.ReasonSlow)
			return
		}
	}
	s.limit = s.limit.Add(time.Duration(q.Length) * time.Second / leastRate)
	if by := time.Now().Add(time.Duration(q.Patience) * time.Millisecond); by.Before(s.limit) {
		s.limit = by
	}
	if q.Incarnation != c.n.incarnation {
		s.refuse(wire.ReasonStale)
		return
	}
	if !c.begin(s) {
		s.refuse(wire.ReasonStopping)
		return
	}
	done := s.carryOut(&q)
	c.end(s)
	if !done {
		s.drop(s.ending())
		return
	}
	s.finish()
}

// carryOut does what was asked and answers. False means that the stream was cut off or is too slow.
func (s *serving) carryOut(q *wire.Request) bool {
	n := s.c.n
	r, mem, why := s.acquire(q)
	if why != wire.ReasonNone {
		s.refuse(why)
		return true
	}
	defer r.Release(s)
	if q.Type == wire.FrameRead {
		if !s.answer(wire.Answer{Type: wire.FrameData, Length: q.Length}, mem) {
			return false
		}
		n.stats.Served(transport.Read, len(mem))
		return true
	}
	if err := s.readFull(mem); err != nil {
		return false
	}
	n.stats.Served(transport.Write, len(mem))
	return s.answer(wire.Answer{Type: wire.FrameDone}, nil)
}

// readFull fills b as long as bytes keep coming.
func (s *serving) readFull(b []byte) error {
	for got := 0; got < len(b); {
		if err := s.st.SetReadDeadline(s.by()); err != nil {
			return err
		}
		n, err := s.step(s.st.Read, b[got:])
		got += n
		if err != nil && got < len(b) {
			return err
		}
	}
	return nil
}

// step reads or writes once. A deadline that passed while other streams of the connection moved
// bytes is no error before the request's limit: on a slow link the streams of a connection share
// what the link carries, and a lost packet holds up one of them alone.
func (s *serving) step(call func([]byte) (int, error), b []byte) (int, error) {
	before := s.c.moved.Load()
	n, err := call(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && s.c.moved.Load() != before && time.Now().Before(s.limit) {
		err = nil
	}
	s.c.moved.Add(int64(n))
	return n, err
}

// leastRate is the least speed of a request that is of use, in bytes per second: the peer may have
// many more on a slow network, which share it.
const leastRate = 1 << 10

// by returns when a call on the stream that moves nothing is to end.
func (s *serving) by() time.Time {
	by := time.Now().Add(s.c.n.cfg.StallTimeout)
	if s.limit.Before(by) {
		return s.limit
	}
	return by
}

// writeSize is how much one write gives to quic-go, in bytes. The call returns when quic-go has
// sent all of that, so it is also the grain at which serving notices progress on a slow network.
const writeSize = 16 << 10

// answer sends the answer and ends this side of the stream. When it returns the payload is no
// longer referred to.
func (s *serving) answer(a wire.Answer, payload []byte) bool {
	var head [wire.AnswerSize]byte
	a.Loss = lossOf(s.c.quic)
	a.Put(head[:])
	payload = sendable(payload)
	published()
	for _, b := range [2][]byte{head[:], payload} {
		for len(b) > 0 {
			if s.st.SetWriteDeadline(s.by()) != nil {
				return false
			}
			n, err := s.step(s.st.Write, b[:min(len(b), writeSize)])
			if err != nil {
				return false
			}
			b = b[n:]
		}
	}
	return s.st.Close() == nil
}

// refuse answers with a reason and wants nothing more of the stream.
func (s *serving) refuse(why wire.Reason) {
	s.c.n.stats.refuse(why)
	if why == wire.ReasonGrantMissing || why == wire.ReasonGrantWrong {
		s.c.tellGrant(why)
	}
	s.st.CancelRead(streamCode(why))
	if !s.answer(why.Answer(), nil) {
		s.st.CancelWrite(streamCode(why))
	}
}

// finish waits for the end of the peer's side, so that quic-go can forget the stream. A peer that
// says more than its request is not listened to.
func (s *serving) finish() {
	var more [1]byte
	_ = s.st.SetReadDeadline(time.Now().Add(s.c.n.cfg.StallTimeout))
	if n, err := s.st.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		s.st.CancelRead(streamCode(wire.ReasonBadFrame))
	}
}

// drop gives up the stream in both directions.
func (s *serving) drop(why wire.Reason) {
	s.st.CancelRead(streamCode(why))
	s.st.CancelWrite(streamCode(why))
}

// cut ends a request that is in flight: calls on its stream return.
func (s *serving) cut(why wire.Reason) {
	s.mu.Lock()
	s.why = why
	s.mu.Unlock()
	s.drop(why)
}

func (s *serving) ending() wire.Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == wire.ReasonNone {
		return wire.ReasonSlow
	}
	return s.why
}
