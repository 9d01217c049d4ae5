package worker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Serve runs w and writes its events to out: progress every interval, then the result,
// and the error if there is one. It is the body of a worker process. When out cannot be
// written any more, the parent is gone and the run is cancelled. It returns Run's error
// and that of writing. A parent that keeps the pipe open must read it.
func Serve(ctx context.Context, w *Worker, src trace.Source, out io.Writer, interval time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enc := NewEncoder(out)

	stopped := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p := w.Progress()
				if err := enc.Encode(Event{Worker: w.cfg.Worker, Progress: &p}); err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	res, err := w.Run(ctx, src)
	close(done)
	<-stopped
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if p, ok := w.pool.(Plugged); ok {
		res.Plugins = p.Plugins()
	}
	werr := enc.Encode(Event{Worker: w.cfg.Worker, Result: &res})
	if err != nil && werr == nil {
		werr = enc.Encode(Event{Worker: w.cfg.Worker, Error: &Failure{Code: errs.CodeOf(err), Message: err.Error()}})
	}
	return errors.Join(err, werr)
}
