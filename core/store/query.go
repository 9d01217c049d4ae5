package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Exist reports whether an object can be read, and grants it a read lease.
func (c *Client) Exist(ctx context.Context, key model.Key) (bool, error) {
	r := c.BatchExist(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchExist is Exist for many keys.
func (c *Client) BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool] {
	return perKey(ctx, c, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[bool], error) {
		return ask(ctx, c.session, "BatchExistKey", func(ctx context.Context) ([]model.Result[bool], error) {
			return c.master.Exist(ctx, c.caller, keys)
		})
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

// Size returns the size of an object in bytes, and grants a read lease. ObjectNotFound,
// ReplicaIsNotReady.
func (c *Client) Size(ctx context.Context, key model.Key) (uint64, error) {
	r := c.Query(ctx, []model.Key{key})[0]
	return r.Value.Size, r.Err
}

// Query says where objects lie, and grants them a read lease.
func (c *Client) Query(ctx context.Context, keys []model.Key) []model.Result[model.Object] {
	var a model.Answer[model.Object]
	c.QueryTo(ctx, keys, &a)
	return a.Results
}

// QueryTo is Query into memory of the caller's.
func (c *Client) QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object]) {
	locate := func(ctx context.Context, keys []model.Key, a *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
		return ask(ctx, c.session, "BatchGetReplicaList", func(ctx context.Context) ([]model.Result[model.Object], error) {
			return c.master.GetReplicas(ctx, c.caller, keys, a)
		})
	}
	if c.single(keys) && c.enter() == nil {
		defer c.calls.Done()
		var err error
		a.Results, err = locate(ctx, keys, a)
		if err == nil && len(a.Results) != len(keys) {
			err = shortAnswer(len(a.Results), len(keys))
		}
		if err != nil {
			a.Results = allFailed[model.Object](len(keys), err)
		}
		return
	}
	a.Results = perKey(ctx, c, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[model.Object], error) {
		return locate(ctx, keys, nil)
	})
}

// Remove deletes an object. ObjectNotFound; ObjectHasLease while readers may be at it,
// unless force; ReplicaIsNotReady while it is being put.
func (c *Client) Remove(ctx context.Context, key model.Key, force bool) error {
	return c.BatchRemove(ctx, []model.Key{key}, force)[0]
}

// BatchRemove is Remove for many keys.
func (c *Client) BatchRemove(ctx context.Context, keys []model.Key, force bool) []error {
	res := perKey(ctx, c, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[struct{}], error) {
		got, err := ask(ctx, c.session, "BatchRemove", func(ctx context.Context) ([]error, error) {
			return c.master.Remove(ctx, c.caller, keys, force)
		})
		out := make([]model.Result[struct{}], len(got))
		for i, e := range got {
			out[i].Err = e
		}
		return out, err
	})
	c.forgetHot(keys)
	out := make([]error, len(keys))
	for i, r := range res {
		out[i] = r.Err
	}
	return out
}

// RemoveByRegex deletes what matches (RE2 syntax, unanchored) and may be removed, and
// returns how many. InvalidParams for a malformed expression.
func (c *Client) RemoveByRegex(ctx context.Context, expr string, force bool) (int, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.calls.Done()
	defer c.forgetHot(nil)
	return ask(ctx, c.session, "RemoveByRegex", func(ctx context.Context) (int, error) {
		return c.master.RemoveByRegex(ctx, c.caller, expr, force)
	})
}

// RemoveAll deletes everything that may be removed and returns how many.
func (c *Client) RemoveAll(ctx context.Context, force bool) (int, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.calls.Done()
	defer c.forgetHot(nil)
	return ask(ctx, c.session, "RemoveAll", func(ctx context.Context) (int, error) {
		return c.master.RemoveAll(ctx, c.caller, force)
	})
}

// ListKeys returns up to limit keys greater than after in byte order, sorted, that contain
// a match of expr ("" for all). The last one returned is the next call's after.
func (c *Client) ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error) {
	if limit < 1 {
		return nil, errs.New(errs.InvalidParams, "store: list keys", "the limit is %d, must be at least 1", limit)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	return ask(ctx, c.session, "ListKeys", func(ctx context.Context) ([]model.Key, error) {
		return c.master.ListKeys(ctx, c.caller, expr, after, limit)
	})
}

func shortAnswer(got, want int) error {
	return errs.New(errs.RPCFail, "store", "the master answered for %d keys of %d", got, want)
}
