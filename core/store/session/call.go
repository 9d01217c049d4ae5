package session

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errGaveUp ends the calls that wait for a master that is down.
var errGaveUp = errors.New("the master does not answer")

// Ask makes one call to the master that ends within bounded time: at once while the master is known
// to be down, and after MasterDownTimeout when it turns out to be. The end of the caller's context
// ends the call as well, and says nothing about the master.
func Ask[T any](ctx context.Context, s *Session, rpc string, f func(context.Context) (T, error)) (T, error) {
	return AskUntil(ctx, s, rpc, time.Time{}, f)
}

// Do is Ask for a call that returns only an error.
func Do(ctx context.Context, s *Session, rpc string, f func(context.Context) error) error {
	_, err := Ask(ctx, s, rpc, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// AskUntil is Ask for a call that has to happen even though the caller's context has ended: with a
// limit other than zero the limit ends the call, and the end of the context does not.
func AskUntil[T any](ctx context.Context, s *Session, rpc string, limit time.Time, f func(context.Context) (T, error)) (T, error) {
	var none T
	if s.outside.Load() > 0 {
		s.letJoin(ctx)
	}
	if err := s.refuse(); err != nil {
		return none, err
	}
	w := s.wait(ctx, limit)
	t0 := w.began
	out, err := f(&w.Call)
	gaveUp, left := s.waited(ctx, w, limit)
	gaveUp = gaveUp && err != nil && !left
	s.Record(rpc, t0)
	switch {
	case !Unanswered(err):
		s.worked()
	case gaveUp:
		if o := s.outage.Load(); o != nil && !errs.Is(o.cause, errs.RPCTimeout) {
			return none, s.refused(o) // Another call or a ping found a better reason than a timeout.
		}
		return none, errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.RPCTimeout, "store: "+rpc, "the master did not answer within %v", time.Since(t0).Round(time.Millisecond))),
			"is it running, and reachable from here? calls work again once it answers")
	case !left:
		s.failed(err, t0)
	}
	return out, err
}

// waiting is a call to the master in flight: its context, which ends when the master is declared
// down. It is pooled.
type waiting struct {
	callctx.Call
	began time.Time
	watch *time.Timer // starts a probe when the call waits for long
}

// wait begins a call.
func (s *Session) wait(ctx context.Context, limit time.Time) *waiting {
	w, ok := s.waits.Get().(*waiting)
	if ok {
		w.watch.Reset(s.downTimeout() / 2)
	} else {
		w = &waiting{watch: time.AfterFunc(s.downTimeout()/2, s.suspect)}
	}
	if limit.IsZero() {
		w.Begin(ctx)
	} else {
		w.BeginDetached(ctx, limit)
	}
	w.began = time.Now()
	s.mu.Lock()
	s.pending[w] = struct{}{}
	s.mu.Unlock()
	return w
}

// waited ends a call. gaveUp: the session ended it because the master is down. left: its caller or
// its limit ended it.
func (s *Session) waited(ctx context.Context, w *waiting, limit time.Time) (gaveUp, left bool) {
	w.watch.Stop() // If it fires anyway, it costs one needless probe.
	s.mu.Lock()
	delete(s.pending, w) // From now on the session does not end it.
	s.mu.Unlock()
	gaveUp = w.Cause() != nil
	if limit.IsZero() {
		limit, _ = ctx.Deadline()
		left = ctx.Err() != nil
	}
	if !limit.IsZero() && !time.Now().Before(limit) {
		left = true // The timer of the context may be late.
	}
	if w.Finish() {
		s.waits.Put(w)
	}
	return gaveUp, left
}
