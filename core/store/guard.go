package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errGaveUp ends the calls that wait for a master that is down.
var errGaveUp = errors.New("the master does not answer")

// ask makes one call to the master that ends within a bounded time: at once while the
// master is known to be down, and after MasterDownTimeout when it turns out to be. The
// caller's context counts as well and says nothing about the master.
func ask[T any](ctx context.Context, s *Session, name string, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := s.refuse(); err != nil {
		return none, err
	}
	call, cancel := context.WithCancelCause(ctx)
	t0 := time.Now()
	w := &waiting{began: t0, end: cancel}
	s.mu.Lock()
	s.pending[w] = struct{}{}
	s.mu.Unlock()
	watch := time.AfterFunc(s.cfg.MasterDownTimeout/2, s.suspect)
	out, err := f(call)
	watch.Stop()
	s.mu.Lock()
	delete(s.pending, w)
	s.mu.Unlock()
	gaveUp := err != nil && ctx.Err() == nil && errors.Is(context.Cause(call), errGaveUp)
	cancel(nil)
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
	case ctx.Err() == nil:
		s.failed(err)
	}
	return out, err
}

// asked makes a call that has no answer but an error.
func asked(ctx context.Context, s *Session, name string, f func(context.Context) error) error {
	_, err := ask(ctx, s, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
