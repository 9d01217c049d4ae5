package quic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// errStopped is what move goes on with whose operation has failed already.
var errStopped = errors.New("the operation has ended")

// move carries a chunk out: it opens a stream, asks, and takes the answer.
func (c *connection) move(ch *chunk) {
	p, began := c.p, time.Now()
	st, err := c.stream(ch)
	ends := disclaimed // Nothing was sent.
	if err == nil {
		ends, err = c.exchange(st, ch)
	}
	p.mu.Lock()
	now := time.Now()
	took := max(now.Sub(began), 1)
	if err != nil {
		took = 0
	}
	rtt := c.quic.ConnectionStats().MinRTT
	c.flow.ended(len(ch.buf), took, rtt, now)
	p.place(rtt)
	p.moving -= int64(len(ch.buf))
	c.used, c.proven = now, c.proven || ends == answered
	c.rouse()
	if ends == answered {
		c.loss = max(ch.loss, lossOf(c.quic))
		p.retry.Connected()
		p.retry.Answered()
	}
	if errors.Is(err, errStale) {
		p.stale(err)
	}
	ch.stream, ch.cancel = nil, nil
	p.settle(ch, err, ch.write && ends == unknown)
	p.kick()
	p.mu.Unlock()
	if st != nil {
		c.finish(st, err)
	}
}

// stream opens the stream of a chunk. It waits where the peer allows no more for now.
func (c *connection) stream(ch *chunk) (*quicgo.Stream, error) {
	p := c.p
	st, err := c.quic.OpenStream()
	var limit *quicgo.StreamLimitReachedError
	if errors.As(err, &limit) {
		ctx, cancel := context.WithCancel(context.Background())
		p.mu.Lock()
		ch.cancel = cancel
		if ch.stopped {
			cancel()
		}
		p.mu.Unlock()
		st, err = c.quic.OpenStreamSync(ctx)
		cancel()
	}
	if err != nil {
		return nil, p.lost(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.stream, ch.cancel = st, nil
	left := min(max(time.Until(ch.op.Deadline).Milliseconds(), 1), math.MaxUint32)
	ch.request.Patience = uint32(left)
	ch.grant = ch.op.Grant.Grant()
	ch.request.Shows = ch.grant != nil
	if ch.stopped {
		st.CancelRead(streamCode(wire.ReasonSlow))
		st.CancelWrite(streamCode(wire.ReasonSlow))
		ch.stream = nil
		return nil, errStopped
	}
	return st, nil
}

// outcome is the state of a request when its exchange is over, as far as this side knows.
type outcome uint8

const (
	unknown    outcome = iota // the peer may still carry it out
	disclaimed                // it was not answered, and the peer carries nothing of it out any more
	answered                  // it was, and the peer will not touch its memory any more
)

// exchange sends the request and takes the answer. When it returns nothing refers to the memory of
// the chunk.
func (c *connection) exchange(st *quicgo.Stream, ch *chunk) (outcome, error) {
	var space [wire.RequestSize + transport.GrantSize]byte
	head := space[:wire.RequestSize]
	ch.request.Put(head)
	if ch.grant != nil {
		head = append(head, ch.grant[:]...)
	}
	var payload []byte
	if ch.write {
		payload = sendable(ch.buf)
	}
	published()
	_, err := st.Write(head)
	for err == nil && len(payload) > 0 {
		n := min(len(payload), writeSize)
		_, err = st.Write(payload[:n])
		c.p.progress.Add(uint64(n))
		payload = payload[n:]
	}
	if err == nil {
		// Fails where the stream was stopped since: by the peer, which says why below, or by this
		// side.
		_ = st.Close()
	}
	var refused *quicgo.StreamError
	if err != nil && (!errors.As(err, &refused) || !refused.Remote) {
		return left(err), c.p.lost(err)
	}
	// A peer that refuses a Write stops it and still says why.
	var back [wire.AnswerSize]byte
	if _, readErr := io.ReadFull(st, back[:]); readErr != nil {
		if err == nil || !errors.As(readErr, &refused) {
			err = readErr
		}
		return left(err), c.p.lost(err)
	}
	return c.answer(st, ch, back[:])
}

// left is what becomes of a request without an answer that ended with err. The peer carries it out
// no more where it never let this side in, where it had finished its requests before it closed the
// connection, and where it gave this request up: it resets a stream that is too slow only after it
// has let go of its memory.
func left(err error) outcome {
	var reset *quicgo.StreamError
	if errors.As(err, &reset) && reset.Remote && reset.ErrorCode == streamCode(wire.ReasonSlow) {
		return disclaimed
	}
	switch closedFor(err) {
	case wire.ReasonStopping, wire.ReasonBusy, wire.ReasonIdle:
		return disclaimed
	}
	var t *quicgo.TransportError
	if errors.As(err, &t) && t.Remote && (t.ErrorCode == quicgo.ConnectionRefused || t.ErrorCode.IsCryptoError()) {
		return disclaimed // The end of a handshake, of which the peer saw less than this side.
	}
	return unknown
}

// answer reads what follows the head of an answer.
func (c *connection) answer(st *quicgo.Stream, ch *chunk, head []byte) (outcome, error) {
	observed()
	c.p.heard.Add(wire.AnswerSize)
	var a wire.Answer
	if err := a.Decode(head); err != nil {
		return unknown, errs.WithClass(errs.ClassTransientPath, c.p.Name(), err)
	}
	ch.loss = a.Loss
	switch {
	case a.Type == wire.FrameError && a.Reason == wire.ReasonStale:
		return answered, fmt.Errorf("%w: %w", errStale, a.Refusal(c.p.Name()))
	case a.Type == wire.FrameError:
		return answered, a.Refusal(c.p.Name())
	case ch.write && a.Type == wire.FrameDone:
		return answered, nil
	case ch.write || a.Type != wire.FrameData || int(a.Length) != len(ch.buf):
		return unknown, errs.WithClass(errs.ClassTransientPath, c.p.Name(), fmt.Errorf("%w: an answer of type %d with %d bytes to another request", wire.ErrFrame, a.Type, a.Length))
	}
	for got := 0; got < len(ch.buf); {
		n, err := st.Read(ch.buf[got:])
		got += n
		c.p.progress.Add(uint64(n))
		c.p.heard.Add(uint64(n))
		if err != nil && got < len(ch.buf) {
			return unknown, c.p.lost(err)
		}
	}
	return answered, nil
}

// finish lets quic-go forget the stream, after the chunk is settled.
func (c *connection) finish(st *quicgo.Stream, err error) {
	if err == nil {
		var more [1]byte
		_ = st.SetReadDeadline(time.Now().Add(c.p.n.cfg.StallTimeout))
		if n, end := st.Read(more[:]); n == 0 && errors.Is(end, io.EOF) {
			return
		}
	}
	st.CancelRead(streamCode(wire.ReasonSlow))
	st.CancelWrite(streamCode(wire.ReasonSlow))
}
