package local

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// The bounds of one call. The client divides larger batches.
const (
	maxItems    = 4096
	maxRefs     = 16384
	maxKeyBytes = 4 << 20
)

// cancelRetry is the pause between attempts to cancel a call that the service has not begun.
const cancelRetry = 20 * time.Millisecond

// rpc makes the calls of an attachment.
type rpc = localv1.LocalServiceClient

// ask makes a call that touches no memory of this process: it ends with the context.
func ask[T any](ctx context.Context, c *Client, op string, f func(context.Context, rpc) (T, error)) (T, error) {
	var none T
	if err := c.calls.Enter("local client"); err != nil {
		return none, err
	}
	defer c.calls.Leave()
	a, err := c.current(ctx)
	if err != nil {
		return none, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(a.live, cancel)()
	out, err := f(bounded, a.rpc)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return none, errs.Wrap(errs.RPCFail, "local client: "+op, ctx.Err())
	case answered(err):
	case a.live.Err() != nil, status.Code(err) == codes.Unavailable:
		a.end(err)
		return none, a.lost()
	}
	return none, wire.FromStatus("local client: "+op, err)
}

// touch makes a call that touches memory of this process, or takes memory of the service. It returns
// when the service no longer uses the memory. The end of the context cancels the call at the service.
// quarantined means that the call may still be in progress.
func touch[T any](ctx context.Context, c *Client, op string, f func(context.Context, *attachment, *localv1.Call) (T, error)) (out T, quarantined bool, err error) {
	var none T
	a, err := c.current(ctx)
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
	call := &localv1.Call{Id: c.lastCall.Add(1), TimeoutNs: uint64(limit)}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+c.cfg.CallTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { a.cancelCall(patient, call.GetId()) })()
	out, err = f(patient, a, call)
	if err == nil {
		return out, false, nil
	}
	if answered(err) || notBegun(err) {
		return none, false, wire.FromStatus("local client: "+op, err)
	}
	a.end(err)
	if <-a.over; a.settled {
		return none, false, a.lost()
	}
	return none, true, errs.Wrap(errs.RPCFail, "local client: "+op, transfer.ErrQuarantined)
}

// answered reports whether the service returned the error as its answer to the call.
func answered(err error) bool { return len(status.Convert(err).Details()) > 0 }

// notBegun reports whether an error means that the service has not begun the call, or has ended it.
func notBegun(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Unimplemented, codes.InvalidArgument:
		return true
	}
	return false
}

// cancelCall asks the service to end a call early, until it has or the call's own context ends.
func (a *attachment) cancelCall(ctx context.Context, id uint64) {
	for ctx.Err() == nil && a.live.Err() == nil {
		one, cancel := context.WithTimeout(ctx, a.cfg.PingTimeout)
		resp, err := a.rpc.Cancel(one, &localv1.CancelRequest{Id: id})
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

// calls divides keys into calls.
func calls(keys []model.Key, f func(lo, hi int)) {
	lo, size := 0, 0
	for i, k := range keys {
		if i > lo && (i-lo >= maxItems || size+len(k) > maxKeyBytes) {
			f(lo, i)
			lo, size = i, 0
		}
		size += len(k)
	}
	if lo < len(keys) {
		f(lo, len(keys))
	}
}

// perKey asks about keys in as many calls as they need. f returns the values of one call, and the
// errors of some of its keys.
func perKey[T any](ctx context.Context, c *Client, op string, keys []model.Key, f func(ctx context.Context, r rpc, lo, hi int, keys [][]byte) ([]T, []*localv1.ItemError, error)) []model.Result[T] {
	out := make([]model.Result[T], len(keys))
	calls(keys, func(lo, hi int) {
		var failed []*localv1.ItemError
		got, err := ask(ctx, c, op, func(ctx context.Context, r rpc) (values []T, err error) {
			values, failed, err = f(ctx, r, lo, hi, codec.KeysOut(keys[lo:hi]))
			return values, err
		})
		fill(out[lo:hi], op, got, failed, err)
	})
	return out
}

// fill sets the results of one call: its values, the errors of some items, or the error of the call.
func fill[T any](out []model.Result[T], op string, values []T, failed []*localv1.ItemError, err error) {
	if err == nil && len(values) != len(out) {
		err = errs.New(errs.DeserializeFail, "local client: "+op, "%d answers came for %d items", len(values), len(out))
	}
	if err == nil {
		for i, v := range values {
			out[i].Value = v
		}
		err = codec.ErrorsIn(len(out), failed, func(i int, e error) { out[i] = model.Result[T]{Err: e} })
	}
	if err != nil {
		all(out, err)
	}
}

// errorsOf returns the errors of results.
func errorsOf(res []model.Result[struct{}]) []error {
	out := make([]error, len(res))
	for i, r := range res {
		out[i] = r.Err
	}
	return out
}

// all gives every item the same error.
func all[T any](out []model.Result[T], err error) {
	for i := range out {
		out[i] = model.Result[T]{Err: err}
	}
}
