package client

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// BatchExist implements store.Pool.
func (c *Client) BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool] {
	return base.PerKey(ctx, c.b, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[bool], error) {
		return session.Ask(ctx, c.b.Session, "BatchExistKey", func(ctx context.Context) ([]model.Result[bool], error) {
			return c.b.Master.Exist(ctx, c.b.Caller, keys)
		})
	})
}

// QueryTo implements store.Pool.
func (c *Client) QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object]) {
	into := a
	if !c.b.Single(keys) {
		into = nil // Only one call can use it.
	}
	a.Results = base.PerKey(ctx, c.b, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[model.Object], error) {
		return c.b.Locate(ctx, keys, into)
	})
	c.tellSizes(a.Results)
}

// tellSizes gives sealed objects the sizes of their values.
func (c *Client) tellSizes(objects []model.Result[model.Object]) {
	for i := range objects {
		objects[i].Value.Size = c.b.PlainSize(&objects[i].Value)
	}
}

// BatchRemove implements store.Pool.
func (c *Client) BatchRemove(ctx context.Context, keys []model.Key, force bool) []error {
	res := base.PerKey(ctx, c.b, keys, func(ctx context.Context, keys []model.Key) ([]model.Result[struct{}], error) {
		got, err := session.Ask(ctx, c.b.Session, "BatchRemove", func(ctx context.Context) ([]error, error) {
			return c.b.Master.Remove(ctx, c.b.Caller, keys, force)
		})
		out := make([]model.Result[struct{}], len(got))
		for i, e := range got {
			out[i].Err = e
		}
		return out, err
	})
	c.reader.Forget(keys)
	out := make([]error, len(keys))
	for i, r := range res {
		out[i] = r.Err
	}
	return out
}

// RemoveByRegex implements store.Pool.
func (c *Client) RemoveByRegex(ctx context.Context, expr string, force bool) (int, error) {
	defer c.reader.ForgetAll()
	if expr == "" {
		return ask(ctx, c, "RemoveAll", func(ctx context.Context) (int, error) { return c.b.Master.RemoveAll(ctx, c.b.Caller, force) })
	}
	return ask(ctx, c, "RemoveByRegex", func(ctx context.Context) (int, error) {
		return c.b.Master.RemoveByRegex(ctx, c.b.Caller, expr, force)
	})
}

// ListKeys implements store.Pool.
func (c *Client) ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error) {
	if limit < 1 {
		return nil, errs.New(errs.InvalidParams, "store: list keys", "the limit is %d, must be at least 1", limit)
	}
	return ask(ctx, c, "ListKeys", func(ctx context.Context) ([]model.Key, error) {
		return c.b.Master.ListKeys(ctx, c.b.Caller, expr, after, limit)
	})
}

// QueryByRegex returns where the objects lie whose keys ListKeys returns, and grants them a lease.
func (c *Client) QueryByRegex(ctx context.Context, expr string, after model.Key, limit int) (keys []model.Key, objects []model.Result[model.Object], err error) {
	if limit < 1 {
		return nil, nil, errs.New(errs.InvalidParams, "store: query by regex", "the limit is %d, must be at least 1", limit)
	}
	objects, err = ask(ctx, c, "GetReplicaListByRegex", func(ctx context.Context) (o []model.Result[model.Object], err error) {
		keys, o, err = c.b.Master.GetReplicasByRegex(ctx, c.b.Caller, expr, after, limit)
		return o, err
	})
	if err = base.Complete(err, len(objects), len(keys)); err != nil {
		return nil, nil, err
	}
	c.tellSizes(objects)
	return keys, objects, nil
}

// ClearReplicas implements store.Pool.
func (c *Client) ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error) {
	if err := c.b.Calls.Enter("store"); err != nil {
		return nil, err
	}
	defer c.b.Calls.Leave()
	var good []model.Key
	for _, k := range keys {
		if model.ValidateSought(k) == nil {
			good = append(good, k)
		}
	}
	var cleared []model.Key
	var failed error
	base.InBatches(len(good), c.b.Config.MaxBatch, func(lo, hi int) {
		if failed != nil {
			return
		}
		var got []model.Key
		got, failed = session.Ask(ctx, c.b.Session, "BatchReplicaClear", func(ctx context.Context) ([]model.Key, error) {
			return c.b.Master.ClearReplicas(ctx, c.b.Caller, good[lo:hi], c.b.Caller.Client, segment)
		})
		cleared = append(cleared, got...)
	})
	c.reader.Forget(cleared)
	return cleared, failed
}

// CreateTask implements store.Pool.
func (c *Client) CreateTask(ctx context.Context, spec model.TaskSpec) (model.TaskID, error) {
	if err := model.ValidateSought(spec.Key); err != nil {
		return model.TaskID{}, err
	}
	name := "CreateCopyTask"
	if spec.Kind == model.MoveObject {
		name = "CreateMoveTask"
	}
	spec.Tenant = c.b.Caller.Tenant
	return ask(ctx, c, name, func(ctx context.Context) (model.TaskID, error) { return c.b.Master.CreateTask(ctx, c.b.Caller, spec) })
}

// QueryTask implements store.Pool.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	return ask(ctx, c, "QueryTask", func(ctx context.Context) (model.Task, error) { return c.b.Master.QueryTask(ctx, id) })
}
