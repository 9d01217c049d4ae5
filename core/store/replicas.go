package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// QueryByRegex is Query for up to limit keys greater than after, in byte order, that contain
// a match of expr. The last key returned is the next call's after.
func (c *Client) QueryByRegex(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	if limit < 1 {
		return nil, nil, errs.New(errs.InvalidParams, "store: query by regex", "the limit is %d, must be at least 1", limit)
	}
	if err := c.enter(); err != nil {
		return nil, nil, err
	}
	defer c.calls.Done()
	type answer struct {
		keys    []model.Key
		objects []model.Result[model.Object]
	}
	a, err := ask(ctx, c.session, "GetReplicaListByRegex", func(ctx context.Context) (answer, error) {
		keys, objects, err := c.master.GetReplicasByRegex(ctx, c.caller, expr, after, limit)
		return answer{keys, objects}, err
	})
	if err == nil && len(a.keys) != len(a.objects) {
		return nil, nil, shortAnswer(len(a.objects), len(a.keys))
	}
	return a.keys, a.objects, err
}

// ClearReplicas takes away the copies on a segment, or with "" the whole object, of those
// keys that this client put and no client is reading, and returns those keys.
func (c *Client) ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	good, _ := validKeys(keys, func(int, error) {})
	var cleared []model.Key
	var failed error
	inBatches(len(good), c.cfg.MaxBatch, func(lo, hi int) {
		if failed != nil {
			return
		}
		got, err := ask(ctx, c.session, "BatchReplicaClear", func(ctx context.Context) ([]model.Key, error) {
			return c.master.ClearReplicas(ctx, c.caller, good[lo:hi], c.caller.Client, segment)
		})
		cleared, failed = append(cleared, got...), err
	})
	c.forgetHot(append([]model.Key{}, cleared...))
	return cleared, failed
}

// Why tells what the master knows of a key. An unknown key is an answer, not an error.
func (c *Client) Why(ctx context.Context, key model.Key) (model.Story, error) {
	if err := model.ValidateKey(key); err != nil {
		return model.Story{}, err
	}
	if err := c.enter(); err != nil {
		return model.Story{}, err
	}
	defer c.calls.Done()
	return ask(ctx, c.session, "Why", func(ctx context.Context) (model.Story, error) { return c.master.Why(ctx, c.caller, key) })
}

// CreateCopyTask has an object copied to segments by the node that holds it. It returns at
// once; see QueryTask. ObjectNotFound, SegmentNotFound, TaskPendingLimitExceeded,
// InvalidParams.
func (c *Client) CreateCopyTask(ctx context.Context, key model.Key, targets []string) (model.TaskID, error) {
	return c.createTask(ctx, "CreateCopyTask", model.TaskSpec{Kind: model.CopyObject, Tenant: c.caller.Tenant, Key: key, Targets: targets})
}

// CreateMoveTask has an object moved from one segment to another. As CreateCopyTask.
func (c *Client) CreateMoveTask(ctx context.Context, key model.Key, source, target string) (model.TaskID, error) {
	return c.createTask(ctx, "CreateMoveTask", model.TaskSpec{Kind: model.MoveObject, Tenant: c.caller.Tenant, Key: key, Source: source, Targets: []string{target}})
}

func (c *Client) createTask(ctx context.Context, name string, spec model.TaskSpec) (model.TaskID, error) {
	if err := model.ValidateSought(spec.Key); err != nil {
		return model.TaskID{}, err
	}
	if err := c.enter(); err != nil {
		return model.TaskID{}, err
	}
	defer c.calls.Done()
	return ask(ctx, c.session, name, func(ctx context.Context) (model.TaskID, error) { return c.master.CreateTask(ctx, c.caller, spec) })
}

// QueryTask answers with a task, or TaskNotFound.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	if err := c.enter(); err != nil {
		return model.Task{}, err
	}
	defer c.calls.Done()
	return ask(ctx, c.session, "QueryTask", func(ctx context.Context) (model.Task, error) { return c.master.QueryTask(ctx, id) })
}
