package rpc

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var errPending = errs.New(errs.NotSupported, "master", "not yet")

func (c *Client) QueryHosts(context.Context, []model.ClientID) (map[model.ClientID][]string, error) {
	return nil, errPending
}
func (c *Client) GetReplicasByRegex(context.Context, model.Caller, string, model.Key, int) ([]model.Key, []model.Result[model.Object], error) {
	return nil, nil, errPending
}
func (c *Client) ClearReplicas(context.Context, model.Caller, []model.Key, model.ClientID, string) ([]model.Key, error) {
	return nil, errPending
}
func (c *Client) Why(context.Context, model.Caller, model.Key) (model.Story, error) {
	return model.Story{}, errPending
}
func (c *Client) CopyStart(context.Context, model.Caller, model.CopyKind, model.Key, string, []string) (model.CopyPlan, error) {
	return model.CopyPlan{}, errPending
}
func (c *Client) CopyEnd(context.Context, model.Caller, model.CopyKind, model.Key) error {
	return errPending
}
func (c *Client) CopyRevoke(context.Context, model.Caller, model.CopyKind, model.Key) error {
	return errPending
}
func (c *Client) CreateTask(context.Context, model.Caller, model.TaskSpec) (model.TaskID, error) {
	return model.TaskID{}, errPending
}
func (c *Client) QueryTask(context.Context, model.TaskID) (model.Task, error) {
	return model.Task{}, errPending
}
func (c *Client) FetchTasks(context.Context, model.Caller, int) ([]model.Assignment, error) {
	return nil, errPending
}
func (c *Client) CompleteTask(context.Context, model.Caller, model.TaskID, model.TaskStatus, string) error {
	return errPending
}
