package local

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// The bounds of one call; larger batches are cut.
const (
	maxItems    = 4096
	maxPieces   = 16384
	maxKeyBytes = 4 << 20
)

// cancelRetry is the pause between attempts to cancel a call that the service has not begun.
const cancelRetry = 20 * time.Millisecond

// ask makes a call that touches no memory of ours: it ends with the context.
func ask[T any](ctx context.Context, c *Client, op string, f func(context.Context, localv1.LocalServiceClient) (T, error)) (T, error) {
	var none T
	if err := c.enter(); err != nil {
		return none, err
	}
	defer c.calls.Done()
	l, err := c.current(ctx)
	if err != nil {
		return none, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(l.live, cancel)()
	out, err := f(bounded, l.rpc)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return none, errs.Wrap(errs.RPCFail, "local client: "+op, ctx.Err())
	case answered(err):
	case l.live.Err() != nil, status.Code(err) == codes.Unavailable:
		l.end(err)
		return none, l.lost()
	}
	return none, wire.FromStatus("local client: "+op, err)
}

// touch makes a call that touches memory of ours, or takes something of the service's: it
// returns when the service is done with it, also when the context ended, which cancels the
// call there. spoilt means that it is unknown whether the call is done.
func touch[T any](ctx context.Context, c *Client, op string, f func(context.Context, *link, *localv1.Call) (T, error)) (out T, spoilt bool, err error) {
	var none T
	l, err := c.current(ctx)
	if err != nil {
		return none, false, err
	}
	if err := ctx.Err(); err != nil {
		return none, false, errs.Wrap(errs.RPCFail, "local client: "+op, err)
	}
	limit := c.cfg.CallTimeout
	if d, ok := ctx.Deadline(); ok {
		limit = max(min(limit, time.Until(d)), time.Millisecond)
	}
	call := &localv1.Call{Id: c.call.Add(1), TimeoutNs: uint64(limit)}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+c.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.cancelCall(patient, call.GetId()) })()
	out, err = f(patient, l, call)
	if err == nil {
		return out, false, nil
	}
	if answered(err) || notBegun(err) {
		return none, false, wire.FromStatus("local client: "+op, err)
	}
	l.end(err)
	if <-l.over; l.settled {
		return none, false, l.lost()
	}
	return none, true, errs.Wrap(errs.RPCFail, "local client: "+op, transfer.ErrQuarantined)
}

// answered reports whether an error is the service's answer to the call.
func answered(err error) bool { return len(status.Convert(err).Details()) > 0 }

// notBegun reports whether an error means that the service's call was never begun, or has
// ended.
func notBegun(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unimplemented, codes.InvalidArgument:
		return true
	}
	return false
}

// cancelCall tells the service to end a call early, until it has or the call's own context
// is over.
func (l *link) cancelCall(ctx context.Context, id uint64) {
	for ctx.Err() == nil && l.live.Err() == nil {
		one, cancel := context.WithTimeout(ctx, l.cfg.PingTimeout)
		resp, err := l.rpc.Cancel(one, &localv1.CancelRequest{Id: id})
		cancel()
		if err != nil || resp.GetFound() {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(cancelRetry):
		}
	}
}

// chunks cuts n items into calls: pieces says how many pieces of memory an item has.
func chunks(keys []model.Key, pieces func(int) int, f func(lo, hi int)) {
	lo, parts, size := 0, 0, 0
	for i, k := range keys {
		p := 1
		if pieces != nil {
			p = pieces(i)
		}
		if i > lo && (i-lo >= maxItems || parts+p > maxPieces || size+len(k) > maxKeyBytes) {
			f(lo, i)
			lo, parts, size = i, 0, 0
		}
		parts, size = parts+p, size+len(k)
	}
	if lo < len(keys) {
		f(lo, len(keys))
	}
}

// all gives every item the same error.
func all[T any](out []model.Result[T], err error) {
	for i := range out {
		out[i].Err = err
	}
}
