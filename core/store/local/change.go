package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// Remove deletes an object; see store.Client.
func (c *Client) Remove(ctx context.Context, key model.Key, force bool) error {
	return c.BatchRemove(ctx, []model.Key{key}, force)[0]
}

// BatchRemove is Remove for many keys.
func (c *Client) BatchRemove(ctx context.Context, keys []model.Key, force bool) []error {
	res := perKey(ctx, c, "remove", keys, func(ctx context.Context, r rpc, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		resp, err := r.Remove(ctx, &localv1.RemoveRequest{Keys: keys, Force: force})
		return make([]struct{}, len(keys)), resp.GetErrors(), err
	})
	out := make([]error, len(keys))
	for i, r := range res {
		out[i] = r.Err
	}
	return out
}

// RemoveByRegex deletes what matches (RE2 syntax, unanchored) and may be removed, and
// returns how many.
func (c *Client) RemoveByRegex(ctx context.Context, expr string, force bool) (int, error) {
	return c.removeMany(ctx, &localv1.RemoveManyRequest{Expression: &expr, Force: force})
}

// RemoveAll deletes everything that may be removed and returns how many.
func (c *Client) RemoveAll(ctx context.Context, force bool) (int, error) {
	return c.removeMany(ctx, &localv1.RemoveManyRequest{Force: force})
}

func (c *Client) removeMany(ctx context.Context, req *localv1.RemoveManyRequest) (int, error) {
	resp, err := ask(ctx, c, "remove", func(ctx context.Context, r rpc) (*localv1.RemoveManyResponse, error) { return r.RemoveMany(ctx, req) })
	return int(resp.GetRemoved()), err
}

// ClearReplicas takes away the copies on a segment, or with "" whole objects, and returns
// the keys for which it did.
func (c *Client) ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error) {
	var out []model.Key
	var failed error
	chunks(keys, nil, func(lo, hi int) {
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

// CreateCopyTask has an object copied to segments; see store.Client.
func (c *Client) CreateCopyTask(ctx context.Context, key model.Key, targets []string) (model.TaskID, error) {
	return c.createTask(ctx, &localv1.CreateTaskRequest{Key: []byte(key), Targets: targets})
}

// CreateMoveTask has a copy of an object moved from one segment to another.
func (c *Client) CreateMoveTask(ctx context.Context, key model.Key, source, target string) (model.TaskID, error) {
	return c.createTask(ctx, &localv1.CreateTaskRequest{Key: []byte(key), Source: source, Targets: []string{target}, Move: true})
}

func (c *Client) createTask(ctx context.Context, req *localv1.CreateTaskRequest) (model.TaskID, error) {
	resp, err := ask(ctx, c, "create task", func(ctx context.Context, r rpc) (*localv1.CreateTaskResponse, error) { return r.CreateTask(ctx, req) })
	return codec.IDIn(resp.GetTask()), err
}

// QueryTask answers with a task, or TaskNotFound.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	resp, err := ask(ctx, c, "query task", func(ctx context.Context, r rpc) (*localv1.QueryTaskResponse, error) {
		return r.QueryTask(ctx, &localv1.QueryTaskRequest{Task: codec.IDOut(id)})
	})
	if err != nil {
		return model.Task{}, err
	}
	return codec.TaskIn(resp), nil
}
