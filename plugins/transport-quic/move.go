package quic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errStopped is what move goes on with whose operation has failed already.
var errStopped = errors.New("the operation has ended")

// move carries a piece out: it opens a stream, asks, and takes the answer.
func (l *lane) move(pt *part) {
	p, began := l.p, time.Now()
	st, err := l.stream(pt)
	ends := renounced // Nothing was sent.
	if err == nil {
		ends, err = l.exchange(st, pt)
	}
	p.mu.Lock()
	now := time.Now()
	took := max(now.Sub(began), 1)
	if err != nil {
		took = 0
	}
	rtt := l.quic.ConnectionStats().MinRTT
	l.flow.ended(len(pt.buf), took, rtt, now)
	p.place(rtt)
	p.moving -= int64(len(pt.buf))
	l.used, l.proven = now, l.proven || ends == answered
	if ends == answered {
		l.loss = max(pt.loss, lossOf(l.quic))
		p.retry.since, p.retry.last, p.retry.down, p.retry.pause = time.Time{}, nil, nil, 0
	}
	if errors.Is(err, errStale) {
		p.stale(err)
	}
	pt.stream, pt.cancel = nil, nil
	p.settle(pt, err, pt.write && ends == unknown)
	p.kick()
	p.mu.Unlock()
	if st != nil {
		l.finish(st, err)
	}
}

// stream opens the stream of a piece. It waits where the peer allows no more for now.
func (l *lane) stream(pt *part) (*quicgo.Stream, error) {
	p := l.p
	st, err := l.quic.OpenStream()
	var limit *quicgo.StreamLimitReachedError
	if errors.As(err, &limit) {
		ctx, cancel := context.WithCancel(context.Background())
		p.mu.Lock()
		pt.cancel = cancel
		if pt.stopped {
			cancel()
		}
		p.mu.Unlock()
		st, err = l.quic.OpenStreamSync(ctx)
		cancel()
	}
	if err != nil {
		return nil, p.lost(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pt.stream, pt.cancel = st, nil
	left := min(max(time.Until(pt.op.Deadline).Milliseconds(), 1), math.MaxUint32)
	pt.request.Patience = uint32(left)
	if pt.stopped {
		st.CancelRead(streamCode(reasonSlow))
		st.CancelWrite(streamCode(reasonSlow))
		pt.stream = nil
		return nil, errStopped
	}
	return st, nil
}

// outcome is what is known of a request when its exchange is over.
type outcome uint8

const (
	unknown   outcome = iota // the peer may still carry it out
	renounced                // it was not answered, and the peer carries nothing of it out any more
	answered                 // it was, and the peer will not touch its memory any more
)

// exchange sends the request and takes the answer. When it returns nothing refers to the
// memory of the piece.
func (l *lane) exchange(st *quicgo.Stream, pt *part) (outcome, error) {
	var head [requestSize]byte
	pt.request.put(head[:])
	var payload []byte
	if pt.write {
		payload = sendable(pt.buf)
	}
	published()
	_, err := st.Write(head[:])
	for err == nil && len(payload) > 0 {
		n := min(len(payload), chunk)
		_, err = st.Write(payload[:n])
		l.p.progress.Add(uint64(n))
		payload = payload[n:]
	}
	if err == nil {
		// Fails where the stream was stopped since: by the peer, who says why below, or by this side.
		_ = st.Close()
	}
	var refused *quicgo.StreamError
	if err != nil && (!errors.As(err, &refused) || !refused.Remote) {
		return left(err), l.p.lost(err)
	}
	// Who refuses a Write stops it and still says why.
	var back [answerSize]byte
	if _, readErr := io.ReadFull(st, back[:]); readErr != nil {
		if err == nil || !errors.As(readErr, &refused) {
			err = readErr
		}
		return left(err), l.p.lost(err)
	}
	return l.answer(st, pt, back[:])
}

// left is what becomes of a request without an answer when the peer closed its connection with err.
// It is refused where the peer never let this side in, or had finished what it was at before.
func left(err error) outcome {
	switch closedFor(err) {
	case reasonStopping, reasonBusy, reasonIdle:
		return renounced
	}
	var t *quicgo.TransportError
	if errors.As(err, &t) && t.Remote && (t.ErrorCode == quicgo.ConnectionRefused || t.ErrorCode.IsCryptoError()) {
		return renounced // The end of a handshake, of which the peer saw less than this side.
	}
	return unknown
}

// answer reads what follows the head of an answer.
func (l *lane) answer(st *quicgo.Stream, pt *part, head []byte) (outcome, error) {
	observed()
	var a answer
	if err := a.decode(head); err != nil {
		return unknown, errs.WithClass(errs.ClassTransientPath, l.p.Name(), err)
	}
	pt.loss = a.Loss
	switch {
	case a.Type == frameError && a.Reason == reasonStale:
		return answered, fmt.Errorf("%w: %w", errStale, a.refusal(l.p.Name()))
	case a.Type == frameError:
		return answered, a.refusal(l.p.Name())
	case pt.write && a.Type == frameDone:
		return answered, nil
	case pt.write || a.Type != frameData || int(a.Length) != len(pt.buf):
		return unknown, errs.WithClass(errs.ClassTransientPath, l.p.Name(), fmt.Errorf("%w: an answer of type %d with %d bytes to another request", errFrame, a.Type, a.Length))
	}
	for got := 0; got < len(pt.buf); {
		n, err := st.Read(pt.buf[got:])
		got += n
		l.p.progress.Add(uint64(n))
		if err != nil && got < len(pt.buf) {
			return unknown, l.p.lost(err)
		}
	}
	return answered, nil
}

// finish lets quic-go forget the stream, after the piece is settled.
func (l *lane) finish(st *quicgo.Stream, err error) {
	if err == nil {
		var more [1]byte
		_ = st.SetReadDeadline(time.Now().Add(l.p.n.cfg.StallTimeout))
		if n, end := st.Read(more[:]); n == 0 && errors.Is(end, io.EOF) {
			return
		}
	}
	st.CancelRead(streamCode(reasonSlow))
	st.CancelWrite(streamCode(reasonSlow))
}
