package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// BatchGetSessionStart opens sessions for reading; see store.Layers. The sessions of a client
// end with its attachment.
func (c *Client) BatchGetSessionStart(ctx context.Context, keys []model.Key) []error {
	return perError(keys, func(lo, hi int) ([]*localv1.ItemError, error) {
		resp, err := ask(ctx, c, "start to get", func(ctx context.Context, r rpc) (*localv1.StartGetResponse, error) {
			return r.StartGet(ctx, &localv1.StartGetRequest{Keys: codec.KeysOut(keys[lo:hi])})
		})
		return resp.GetErrors(), err
	})
}

// BatchGetSessionEnd ends sessions for reading.
func (c *Client) BatchGetSessionEnd(ctx context.Context, keys []model.Key) error {
	var failed error
	chunks(keys, nil, func(lo, hi int) {
		_, err := ask(ctx, c, "end get", func(ctx context.Context, r rpc) (*localv1.EndGetResponse, error) {
			return r.EndGet(ctx, &localv1.EndGetRequest{Keys: codec.KeysOut(keys[lo:hi])})
		})
		if failed == nil {
			failed = err
		}
	})
	return failed
}

// BatchPutSessionStart opens sessions for writing.
func (c *Client) BatchPutSessionStart(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error {
	if len(sizes) != len(keys) || len(groups) != 0 && len(groups) != len(keys) {
		err := errs.New(errs.InvalidParams, "local client: start to put", "%d keys came with %d sizes and %d groups", len(keys), len(sizes), len(groups))
		return perError(keys, func(int, int) ([]*localv1.ItemError, error) { return nil, err })
	}
	return perError(keys, func(lo, hi int) ([]*localv1.ItemError, error) {
		req := &localv1.StartPutRequest{Keys: codec.KeysOut(keys[lo:hi]), Sizes: sizes[lo:hi], Config: codec.ReplicateOut(cfg)}
		if len(groups) > 0 {
			req.Groups = groups[lo:hi]
		}
		resp, err := ask(ctx, c, "start to put", func(ctx context.Context, r rpc) (*localv1.StartPutResponse, error) {
			return r.StartPut(ctx, req)
		})
		return resp.GetErrors(), err
	})
}

// BatchPutSessionEnd makes objects readable and ends their sessions.
func (c *Client) BatchPutSessionEnd(ctx context.Context, keys []model.Key) []error {
	return c.endPuts(ctx, keys, false)
}

// BatchPutSessionRevoke gives up puts and ends their sessions.
func (c *Client) BatchPutSessionRevoke(ctx context.Context, keys []model.Key) []error {
	return c.endPuts(ctx, keys, true)
}

func (c *Client) endPuts(ctx context.Context, keys []model.Key, revoke bool) []error {
	return perError(keys, func(lo, hi int) ([]*localv1.ItemError, error) {
		resp, err := ask(ctx, c, "end put", func(ctx context.Context, r rpc) (*localv1.EndPutResponse, error) {
			return r.EndPut(ctx, &localv1.EndPutRequest{Keys: codec.KeysOut(keys[lo:hi]), Revoke: revoke})
		})
		return resp.GetErrors(), err
	})
}

// perError makes as many calls as keys need; f returns the errors of the items of one call.
func perError(keys []model.Key, f func(lo, hi int) ([]*localv1.ItemError, error)) []error {
	out := make([]error, len(keys))
	chunks(keys, nil, func(lo, hi int) {
		part := out[lo:hi]
		failed, err := f(lo, hi)
		if err == nil {
			err = codec.ErrorsIn(len(part), failed, func(i int, e error) { part[i] = e })
		}
		if err != nil {
			for i := range part {
				part[i] = err
			}
		}
	})
	return out
}

// GetSessionRanges reads pieces of objects that sessions are open for. Pieces of an object of
// which one goes to memory that is not shared go through the local buffer.
func (c *Client) GetSessionRanges(ctx context.Context, reads []store.RangeRead) []model.Result[int] {
	out := make([]model.Result[int], len(reads))
	if err := c.enter(); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Done()
	keys := make([]model.Key, len(reads))
	for i := range reads {
		keys[i] = reads[i].Key
	}
	chunks(keys, func(i int) int { return len(reads[i].Ranges) }, func(lo, hi int) {
		b := rangeBatch{c: c, session: true, req: &localv1.GetRequest{}}
		for i := lo; i < hi; i++ {
			b.add(ctx, &reads[i], out[i:i+1])
		}
		b.send(ctx)
	})
	return out
}
