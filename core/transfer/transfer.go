package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Transfer moves all requests in parallel and answers for each, in their order.
//
// It returns when no buffer of a request is touched any more, except where the result
// says ErrQuarantined. When the context ends, nothing more is submitted, but what is under
// way is waited for: up to the request's deadline, and a few seconds more for a transport
// that does not keep deadlines. A peer that does not answer delays its own requests only.
//
// Requests of one call must not overlap where they write.
func (e *Engine) Transfer(ctx context.Context, reqs []Request) []Result {
	return e.TransferTo(ctx, reqs, make([]Result, 0, len(reqs)))
}

// TransferTo is Transfer that appends the answers to dst, for callers who use its memory
// again. To one peer it allocates nothing then.
func (e *Engine) TransferTo(ctx context.Context, reqs []Request, dst []Result) []Result {
	if !e.life.begin() {
		r := Result{Err: errs.Wrap(errs.TransferFail, "transfer", ErrClosed), Done: time.Now()}
		for range reqs {
			dst = append(dst, r)
		}
		return dst
	}
	defer e.life.finish()
	return e.dispatcher.transfer(ctx, reqs, dst)
}
