package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errGaveUp ends the calls that wait for a master that is down.
var errGaveUp = errors.New("the master does not answer")

// ask makes one call to the master that ends within a bounded time: at once while the
// master is known to be down, and after MasterDownTimeout when it turns out to be. The
// caller's context counts as well and says nothing about the master.
func ask[T any](ctx context.Context, s *Session, name string, f func(context.Context) (T, error)) (T, error) {
	return finish(ctx, s, name, time.Time{}, f)
}

// finish is ask for what has to happen even though the caller left: what counts instead of the
// context's end is a limit, unless that is zero.
func finish[T any](ctx context.Context, s *Session, name string, limit time.Time, f func(context.Context) (T, error)) (T, error) {
	var none T
	if s.outside.Load() > 0 {
		s.settle(ctx)
	}
	if err := s.refuse(); err != nil {
		return none, err
	}
	w := s.wait(ctx, limit)
	t0 := w.began
	out, err := f(&w.Call)
	gaveUp, left := s.waited(ctx, w, limit)
	gaveUp = gaveUp && err != nil && !left
	s.metrics.rpc(name, time.Since(t0))
	switch {
	case !unanswered(err):
		s.worked()
	case gaveUp:
		if o := s.outage.Load(); o != nil && !errs.Is(o.cause, errs.RPCTimeout) {
			return none, s.refused(o) // It was found out otherwise than by waiting.
		}
		return none, errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.RPCTimeout, "store: "+name, "the master did not answer within %v", time.Since(t0).Round(time.Millisecond))),
			"is it running, and reachable from here? calls work again once it answers")
	case !left:
		s.failed(err)
	}
	return out, err
}

// waiting is a call to the master in flight: its context, which a master that is down ends.
// It is used again, by one call at a time.
type waiting struct {
	callctx.Call
	began time.Time
	watch *time.Timer // has a call that waits for long looked into
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

// waited ends a call. gaveUp: it was ended because the master is down; left: by its caller, or
// its limit.
func (s *Session) waited(ctx context.Context, w *waiting, limit time.Time) (gaveUp, left bool) {
	w.watch.Stop() // One that is too late asks once too often whether the master is there.
	s.mu.Lock()
	delete(s.pending, w) // From here on the session does not end it.
	s.mu.Unlock()
	gaveUp = w.Cause() != nil
	if limit.IsZero() {
		limit, _ = ctx.Deadline()
		left = ctx.Err() != nil
	}
	if !limit.IsZero() && !time.Now().Before(limit) {
		left = true // A context may not know yet.
	}
	if w.Finish() {
		s.waits.Put(w)
	}
	return gaveUp, left
}

// asked makes a call that has no answer but an error.
func asked(ctx context.Context, s *Session, name string, f func(context.Context) error) error {
	_, err := ask(ctx, s, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
