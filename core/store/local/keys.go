package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// rpc is short for what a call is made with.
type rpc = localv1.LocalServiceClient

// perKey asks about keys in as many calls as they need. f returns the items of one call,
// with their errors beside them.
func perKey[T any](ctx context.Context, c *Client, op string, keys []model.Key, f func(context.Context, rpc, [][]byte) ([]T, []*localv1.ItemError, error)) []model.Result[T] {
	out := make([]model.Result[T], len(keys))
	chunks(keys, nil, func(lo, hi int) {
		part := out[lo:hi]
		type answer struct {
			values []T
			errs   []*localv1.ItemError
		}
		got, err := ask(ctx, c, op, func(ctx context.Context, r rpc) (answer, error) {
			values, failed, err := f(ctx, r, codec.KeysOut(keys[lo:hi]))
			return answer{values, failed}, err
		})
		if err == nil && len(got.values) != len(part) {
			err = errs.New(errs.DeserializeFail, "local client: "+op, "%d answers came for %d keys", len(got.values), len(part))
		}
		if err == nil {
			for i, v := range got.values {
				part[i].Value = v
			}
			var none T
			err = codec.ErrorsIn(len(part), got.errs, func(i int, e error) { part[i] = model.Result[T]{Value: none, Err: e} })
		}
		if err != nil {
			all(part, err)
		}
	})
	return out
}

// Ready answers with the master's version, or why it cannot be reached.
func (c *Client) Ready(ctx context.Context) (string, error) {
	resp, err := ask(ctx, c, "ready", func(ctx context.Context, r rpc) (*localv1.ReadyResponse, error) {
		return r.Ready(ctx, &localv1.ReadyRequest{})
	})
	return resp.GetVersion(), err
}

// Exist reports whether an object can be read, and grants it a read lease.
func (c *Client) Exist(ctx context.Context, key model.Key) (bool, error) {
	r := c.BatchExist(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchExist is Exist for many keys.
func (c *Client) BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool] {
	return perKey(ctx, c, "exist", keys, func(ctx context.Context, r rpc, keys [][]byte) ([]bool, []*localv1.ItemError, error) {
		resp, err := r.Exist(ctx, &localv1.ExistRequest{Keys: keys})
		return resp.GetExist(), resp.GetErrors(), err
	})
}

// Prefix returns how many of the keys, from the first on, can be read without a gap.
func (c *Client) Prefix(ctx context.Context, keys []model.Key) (int, error) {
	for i, r := range c.BatchExist(ctx, keys) {
		if r.Err != nil || !r.Value {
			return i, r.Err
		}
	}
	return len(keys), nil
}

// Size returns the size of an object in bytes, and grants a read lease.
func (c *Client) Size(ctx context.Context, key model.Key) (uint64, error) {
	r := c.Query(ctx, []model.Key{key})[0]
	return r.Value.Size, r.Err
}

// Query says where objects lie, and grants them a read lease.
func (c *Client) Query(ctx context.Context, keys []model.Key) []model.Result[model.Object] {
	return perKey(ctx, c, "query", keys, func(ctx context.Context, r rpc, keys [][]byte) ([]model.Object, []*localv1.ItemError, error) {
		resp, err := r.Query(ctx, &localv1.QueryRequest{Keys: keys})
		return objects(resp.GetObjects()), resp.GetErrors(), err
	})
}

// QueryTo is Query into memory of the caller's.
func (c *Client) QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object]) {
	a.Results = c.Query(ctx, keys)
}

// QueryByRegex is Query for the keys that ListKeys returns.
func (c *Client) QueryByRegex(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	if err := checkLimit(limit); err != nil {
		return nil, nil, err
	}
	resp, err := ask(ctx, c, "query", func(ctx context.Context, r rpc) (*localv1.QueryByRegexResponse, error) {
		return r.QueryByRegex(ctx, &localv1.QueryByRegexRequest{Expression: expr, After: []byte(after), Limit: uint32(limit)})
	})
	if err != nil {
		return nil, nil, err
	}
	keys := codec.KeysIn(resp.GetKeys())
	out := make([]model.Result[model.Object], len(keys))
	if len(resp.GetObjects()) != len(keys) {
		return nil, nil, errs.New(errs.DeserializeFail, "local client: query", "%d objects came for %d keys", len(resp.GetObjects()), len(keys))
	}
	for i, o := range objects(resp.GetObjects()) {
		out[i].Value = o
	}
	return keys, out, codec.ErrorsIn(len(out), resp.GetErrors(), func(i int, e error) { out[i] = model.Result[model.Object]{Err: e} })
}

func objects(in []*localv1.Object) []model.Object {
	out := make([]model.Object, len(in))
	for i, o := range in {
		out[i] = codec.ObjectIn(o)
	}
	return out
}

// checkLimit keeps numbers out that do not travel.
func checkLimit(limit int) error {
	if limit < 1 || limit > 1<<30 {
		return errs.New(errs.InvalidParams, "local client: list keys", "the limit is %d, must be from 1 to %d", limit, 1<<30)
	}
	return nil
}

// ListKeys returns up to limit keys greater than after in byte order, sorted, that contain a
// match of expr ("" for all).
func (c *Client) ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	resp, err := ask(ctx, c, "list keys", func(ctx context.Context, r rpc) (*localv1.ListKeysResponse, error) {
		return r.ListKeys(ctx, &localv1.ListKeysRequest{Expression: expr, After: []byte(after), Limit: uint32(limit)})
	})
	return codec.KeysIn(resp.GetKeys()), err
}
