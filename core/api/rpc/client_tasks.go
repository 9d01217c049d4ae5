package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// CopyStart implements store.Master.
func (c *Client) CopyStart(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	out, err := call(ctx, c, "copy start", c.rpc.CopyStart, &masterv1.CopyStartRequest{
		Caller: wireCaller(caller), Kind: int32(kind), Key: keyAsBytes(key), Source: text(source), Targets: mapSlice(targets, text),
	})
	if err != nil {
		return model.CopyPlan{}, err
	}
	return goPlan(out)
}

// CopyEnd implements store.Master.
func (c *Client) CopyEnd(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := call(ctx, c, "copy end", c.rpc.CopyEnd, &masterv1.CopyEndRequest{Caller: wireCaller(caller), Kind: int32(kind), Key: keyAsBytes(key)})
	return err
}

// CopyRevoke implements store.Master.
func (c *Client) CopyRevoke(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := call(ctx, c, "copy revoke", c.rpc.CopyRevoke, &masterv1.CopyRevokeRequest{Caller: wireCaller(caller), Kind: int32(kind), Key: keyAsBytes(key)})
	return err
}

// CreateTask implements store.Master.
func (c *Client) CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	if err := checkText("tenant", spec.Tenant); err != nil {
		return model.TaskID{}, err
	}
	out, err := call(ctx, c, "create task", c.rpc.CreateTask, &masterv1.CreateTaskRequest{Caller: wireCaller(caller), Spec: wireTaskSpec(spec)})
	if err != nil {
		return model.TaskID{}, err
	}
	return goUUID(out.GetId()), nil
}

// QueryTask implements store.Master.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	out, err := call(ctx, c, "query task", c.rpc.QueryTask, &masterv1.QueryTaskRequest{Id: wireUUID(id)})
	if err != nil {
		return model.Task{}, err
	}
	return goTask(id, out)
}

// FetchTasks implements store.Master. One call brings at most maxFetch tasks.
func (c *Client) FetchTasks(ctx context.Context, caller model.Caller, limit int) ([]model.Assignment, error) {
	limit = min(max(limit, 0), maxFetch)
	out, err := call(ctx, c, "fetch tasks", c.rpc.FetchTasks, &masterv1.FetchTasksRequest{Caller: wireCaller(caller), Limit: uint32(limit)})
	if err != nil {
		return nil, err
	}
	return goAssignments(limit, out.GetTasks())
}

// CompleteTask implements store.Master. A long message is cut.
func (c *Client) CompleteTask(ctx context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	_, err := call(ctx, c, "complete task", c.rpc.CompleteTask, &masterv1.CompleteTaskRequest{
		Caller: wireCaller(caller), Id: wireUUID(id), Status: int32(status), Message: clip(message),
	})
	return err
}
