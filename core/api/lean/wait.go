package lean

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
)

// wait is all that ends a call before its answer does, for one goroutine. It is used again.
type wait struct {
	ctx         context.Context
	caller, own <-chan struct{} // nil for never
	until       time.Time       // zero for never
	limit       *time.Timer     // at until, where the caller's end does not come then by itself
}

// end is which of them it was.
type end uint8

const (
	callerEnd end = iota
	ownEnd
	limitEnd
)

var waits = sync.Pool{New: func() any {
	w := &wait{limit: time.NewTimer(time.Hour)}
	w.limit.Stop()
	return w
}}

// waitFor is the end of a context, or of a timeout where that is earlier.
func waitFor(ctx context.Context, timeout time.Duration) *wait {
	w := waits.Get().(*wait) //nolint:forcetypeassert // Nothing else is in the pool.
	w.ctx = ctx
	if c, ok := ctx.(*callctx.Call); ok {
		w.caller, w.own = c.Ends()
	} else {
		w.caller = ctx.Done()
	}
	until, bounded := ctx.Deadline()
	w.until = until
	if timeout > 0 {
		if t := time.Now().Add(timeout); !bounded || t.Before(until) {
			w.until = t
		}
	}
	// A context that has passed its deadline says so: a later query of it has to agree.
	if w.until != until || bounded && w.caller == nil {
		w.limit.Reset(time.Until(w.until))
	}
	return w
}

// ended is the error of an end.
func (w *wait) ended(which end) error {
	err := context.DeadlineExceeded
	switch which {
	case callerEnd:
		err = w.ctx.Err()
	case ownEnd:
		err = context.Canceled
	}
	return status.FromContextError(err).Err()
}

func (w *wait) free() {
	w.limit.Stop()
	w.ctx, w.caller, w.own, w.until = nil, nil, nil, time.Time{}
	waits.Put(w)
}
