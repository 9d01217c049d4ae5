package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// Ready implements store.Pool.
func (c *Client) Ready(ctx context.Context) (string, error) {
	resp, err := ask(ctx, c, "ready", func(ctx context.Context, r rpc) (*localv1.ReadyResponse, error) {
		return r.Ready(ctx, &localv1.ReadyRequest{})
	})
	return resp.GetVersion(), err
}

// BatchExist implements store.Pool.
func (c *Client) BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool] {
	return perKey(ctx, c, "exist", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]bool, []*localv1.ItemError, error) {
		resp, err := r.Exist(ctx, &localv1.ExistRequest{Keys: keys})
		return resp.GetExist(), resp.GetErrors(), err
	})
}

// QueryTo implements store.Pool.
func (c *Client) QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object]) {
	a.Results = perKey(ctx, c, "query", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]model.Object, []*localv1.ItemError, error) {
		resp, err := r.Query(ctx, &localv1.QueryRequest{Keys: keys})
		return codec.ObjectsIn(resp.GetObjects()), resp.GetErrors(), err
	})
}

// QueryByRegex returns where the objects lie whose keys ListKeys returns, and grants them a lease.
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
	fill(out, "query", codec.ObjectsIn(resp.GetObjects()), resp.GetErrors(), nil)
	return keys, out, nil
}

// checkLimit returns an error for numbers that the protocol cannot carry.
func checkLimit(limit int) error {
	if limit < 1 || limit > 1<<30 {
		return errs.New(errs.InvalidParams, "local client: list keys", "the limit is %d, must be from 1 to %d", limit, 1<<30)
	}
	return nil
}

// ListKeys implements store.Pool.
func (c *Client) ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	resp, err := ask(ctx, c, "list keys", func(ctx context.Context, r rpc) (*localv1.ListKeysResponse, error) {
		return r.ListKeys(ctx, &localv1.ListKeysRequest{Expression: expr, After: []byte(after), Limit: uint32(limit)})
	})
	return codec.KeysIn(resp.GetKeys()), err
}

// BatchRemove implements store.Pool.
func (c *Client) BatchRemove(ctx context.Context, keys []model.Key, force bool) []error {
	return errorsOf(perKey(ctx, c, "remove", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		resp, err := r.Remove(ctx, &localv1.RemoveRequest{Keys: keys, Force: force})
		return make([]struct{}, len(keys)), resp.GetErrors(), err
	}))
}

// RemoveByRegex implements store.Pool.
func (c *Client) RemoveByRegex(ctx context.Context, expr string, force bool) (int, error) {
	resp, err := ask(ctx, c, "remove", func(ctx context.Context, r rpc) (*localv1.RemoveManyResponse, error) {
		return r.RemoveMany(ctx, &localv1.RemoveManyRequest{Expression: &expr, Force: force})
	})
	return int(resp.GetRemoved()), err
}

// ClearReplicas implements store.Pool.
func (c *Client) ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error) {
	var out []model.Key
	var failed error
	calls(keys, func(lo, hi int) {
		if failed != nil {
			return
		}
		var resp *localv1.ClearReplicasResponse
		resp, failed = ask(ctx, c, "clear replicas", func(ctx context.Context, r rpc) (*localv1.ClearReplicasResponse, error) {
			return r.ClearReplicas(ctx, &localv1.ClearReplicasRequest{Keys: codec.KeysOut(keys[lo:hi]), Segment: segment})
		})
		out = append(out, codec.KeysIn(resp.GetKeys())...)
	})
	return out, failed
}

// CreateTask implements store.Pool.
func (c *Client) CreateTask(ctx context.Context, spec model.TaskSpec) (model.TaskID, error) {
	resp, err := ask(ctx, c, "create task", func(ctx context.Context, r rpc) (*localv1.CreateTaskResponse, error) {
		return r.CreateTask(ctx, &localv1.CreateTaskRequest{Key: []byte(spec.Key), Source: spec.Source, Targets: spec.Targets, Move: spec.Kind == model.MoveObject})
	})
	return codec.IDIn(resp.GetTask()), err
}

// QueryTask implements store.Pool.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	resp, err := ask(ctx, c, "query task", func(ctx context.Context, r rpc) (*localv1.QueryTaskResponse, error) {
		return r.QueryTask(ctx, &localv1.QueryTaskRequest{Task: codec.IDOut(id)})
	})
	if err != nil {
		return model.Task{}, err
	}
	return codec.TaskIn(resp), nil
}
