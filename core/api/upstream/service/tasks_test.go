package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (c *client) fetch(node model.ClientID, most uint64) []calls.TaskAssignment {
	c.t.Helper()
	got := ask(c.pool, c.v, calls.FetchTasks, calls.FetchTasksRequest{Client: node, Most: most})
	require.Equal(c.t, errs.OK, got.Code)
	return got.Value
}

func (c *client) task(id model.UUID) calls.QueryTaskResponse {
	c.t.Helper()
	got := ask(c.pool, c.v, calls.QueryTask, calls.QueryTaskRequest{Task: id})
	require.Equal(c.t, errs.OK, got.Code)
	return got.Value
}

// payloads are the arguments of a copy and a move of "k" from node 0 to node 1, as upstream's masters of each version send them.
var payloads = map[calls.Version][2]string{
	calls.V9:  {`{"key":"k","source":"10.0.0.1:12345","targets":["10.0.0.2:12345"]}`, `{"key":"k","source":"10.0.0.1:12345","target":"10.0.0.2:12345"}`},
	calls.V10: {`{"key":"k","source":"10.0.0.1:12345","targets":["10.0.0.2:12345"]}`, `{"key":"k","source":"10.0.0.1:12345","target":"10.0.0.2:12345"}`},
	calls.V11: {`{"key":"k","source":"10.0.0.1:12345","targets":["10.0.0.2:12345"]}`, `{"key":"k","source":"10.0.0.1:12345","target":"10.0.0.2:12345"}`},
	calls.V12: {
		`{"tenant_id":"default","key":"k","source":"10.0.0.1:12345","targets":["10.0.0.2:12345"]}`,
		`{"tenant_id":"default","key":"k","source":"10.0.0.1:12345","target":"10.0.0.2:12345"}`,
	},
	calls.V13: {
		`{"tenant_id":"default","key":"k","source":"10.0.0.1:12345","targets":["10.0.0.2:12345"],` +
			`"dynamic_replication_lease_id_high":0,"dynamic_replication_lease_id_low":0,"dynamic_replication_version_epoch":0}`,
		`{"tenant_id":"default","key":"k","source":"10.0.0.1:12345","target":"10.0.0.2:12345"}`,
	},
}

// A copy and a move, from the task to its end.
func TestTasks(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64, 64)
		c, before := p.client(v, 1), time.Now().UnixMilli()
		for i, kind := range []calls.TaskType{calls.TaskCopy, calls.TaskMove} {
			c.removeAll()
			c.put("k", 10, calls.ReplicateConfig{PreferredSegment: nameOf(0)})
			var made calls.Expected[model.UUID]
			if kind == calls.TaskCopy {
				made = ask(p, v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Key: "k", Tenant: "default", Targets: []string{nameOf(1)}})
			} else {
				made = ask(p, v, calls.CreateMoveTask, calls.CreateMoveTaskRequest{Key: "k", Tenant: "default", Source: nameOf(0), Target: nameOf(1)})
			}
			require.Equal(t, errs.OK, made.Code)
			task := c.task(made.Value)
			require.Equal(t, [3]any{made.Value, kind, calls.TaskPending}, [3]any{task.ID, task.Type, task.Status})
			require.Equal(t, node(0), task.Client, "the owner of the source")
			require.GreaterOrEqual(t, task.Created, before)

			require.Empty(t, c.fetch(node(1), 16))
			require.Empty(t, c.fetch(node(0), 0))
			got := c.fetch(node(0), 16)
			require.Len(t, got, 1)
			require.Equal(t, [3]any{made.Value, kind, payloads[v][i]}, [3]any{got[0].ID, got[0].Type, got[0].Payload})
			require.Equal(t, task.Created, got[0].Created)
			if v >= calls.V10 {
				require.Equal(t, uint32(10), got[0].Retries)
			}

			var source, target calls.Descriptor
			if kind == calls.TaskCopy {
				plan := ask(p, v, calls.CopyStart, calls.CopyStartRequest{Client: node(0), Key: "k", Tenant: "default", Source: nameOf(0), Targets: []string{nameOf(1)}})
				require.Equal(t, errs.OK, plan.Code)
				require.Len(t, plan.Value.Targets, 1)
				source, target = plan.Value.Source, plan.Value.Targets[0]
				require.Equal(t, errs.InvalidParams, ask(p, v, calls.MoveEnd, calls.MoveEndRequest{Client: node(0), Key: "k", Tenant: "default"}).Code)
			} else {
				plan := ask(p, v, calls.MoveStart, calls.MoveStartRequest{Client: node(0), Key: "k", Tenant: "default", Source: nameOf(0), Target: nameOf(1)})
				require.Equal(t, errs.OK, plan.Code)
				require.True(t, plan.Value.Target.Present)
				source, target = plan.Value.Source, plan.Value.Target.Value
			}
			require.Equal(t, [2]any{segment(0, 0).Endpoint, calls.StatusComplete}, [2]any{source.Buffer.Endpoint, source.Status})
			require.Equal(t, [2]any{segment(1, 0).Endpoint, calls.StatusProcessing}, [2]any{target.Buffer.Endpoint, target.Status})
			end := calls.CopyEnd
			if kind == calls.TaskMove {
				end = calls.MoveEnd
			}
			require.Equal(t, errs.IllegalClient, ask(p, v, end, calls.CopyEndRequest{Client: node(1), Key: "k", Tenant: "default"}).Code)
			require.Equal(t, errs.OK, ask(p, v, end, calls.CopyEndRequest{Client: node(0), Key: "k", Tenant: "default"}).Code)
			require.Equal(t, errs.ObjectNoReplicationTask, ask(p, v, end, calls.CopyEndRequest{Client: node(0), Key: "k", Tenant: "default"}).Code)
			require.Len(t, c.get("k").Value.Replicas, 2-i)

			complete := calls.MarkTaskToCompleteRequest{Client: node(1), Task: calls.TaskComplete{ID: made.Value, Status: calls.TaskSuccess, Message: "Task completed successfully"}}
			require.Equal(t, errs.IllegalClient, ask(p, v, calls.MarkTaskToComplete, complete).Code)
			complete.Client = node(0)
			require.Equal(t, errs.OK, ask(p, v, calls.MarkTaskToComplete, complete).Code)
			require.Equal(t, calls.TaskSuccess, c.task(made.Value).Status)
		}
		require.Equal(t, errs.TaskNotFound, ask(p, v, calls.QueryTask, calls.QueryTaskRequest{Task: model.UUID{Hi: 1}}).Code)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.MarkTaskToComplete, calls.MarkTaskToCompleteRequest{}).Code)
		require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Key: "none", Tenant: "default", Targets: []string{nameOf(1)}}).Code)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Key: "k", Tenant: "default", Targets: []string{"none"}}).Code)
		for _, key := range []string{"", "none"} {
			require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.CopyStart,
				calls.CopyStartRequest{Client: node(0), Key: key, Tenant: "default", Source: nameOf(0), Targets: []string{nameOf(1)}}).Code)
			require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.MoveEnd, calls.MoveEndRequest{Client: node(0), Key: key, Tenant: "default"}).Code)
		}
		require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Key: "none", Tenant: "default", Targets: []string{"none"}}).Code)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Tenant: "default"}).Code)
		require.Equal(t, errs.ObjectNotFound, ask(p, v, calls.CopyStart, calls.CopyStartRequest{}).Code)
		c.start("written", 10, calls.ReplicateConfig{PreferredSegment: nameOf(0)})
		twice := calls.CopyStartRequest{Client: node(0), Key: "written", Tenant: "default", Source: nameOf(0), Targets: []string{nameOf(1), nameOf(1)}}
		require.Equal(t, errs.ReplicaNotFound, ask(p, v, calls.CopyStart, twice).Code)
		require.Equal(t, errs.OK, c.end("written"))
		require.Len(t, ask(p, v, calls.CopyStart, twice).Value.Targets, 1)
		require.Equal(t, errs.InvalidParams, ask(p, v, calls.MoveStart, calls.MoveStartRequest{Client: node(0), Key: "k", Tenant: "default", Source: nameOf(0), Target: nameOf(0)}).Code)
	})
}

// A task fails whose key a client would read as that of another object.
func TestATaskThatJSONCannotCarry(t *testing.T) {
	p := newPool(t, nil, 64, 64)
	c := p.client(calls.V13, 1)
	c.put("\xff", 10, calls.ReplicateConfig{PreferredSegment: nameOf(0)})
	made := ask(p, c.v, calls.CreateCopyTask, calls.CreateCopyTaskRequest{Key: "\xff", Tenant: "default", Targets: []string{nameOf(1)}})
	require.Equal(t, errs.OK, made.Code)
	require.Empty(t, c.fetch(node(0), 16))
	task := c.task(made.Value)
	require.Equal(t, calls.TaskFailed, task.Status)
	require.Contains(t, task.Message, "not UTF-8")
}

// A client that gives a copy up may still write to its target.
func TestCopiesThatAreGivenUp(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64, 64)
		c := p.client(v, 1)
		c.put("k", 10, calls.ReplicateConfig{PreferredSegment: nameOf(0)})
		for _, kind := range []calls.TaskType{calls.TaskCopy, calls.TaskMove} {
			var code errs.Code
			if kind == calls.TaskCopy {
				code = ask(p, v, calls.CopyStart, calls.CopyStartRequest{Client: node(0), Key: "k", Tenant: "default", Source: nameOf(0), Targets: []string{nameOf(1)}}).Code
				require.Equal(t, errs.OK, ask(p, v, calls.CopyRevoke, calls.CopyRevokeRequest{Client: node(0), Key: "k", Tenant: "default"}).Code)
			} else {
				code = ask(p, v, calls.MoveStart, calls.MoveStartRequest{Client: node(0), Key: "k", Tenant: "default", Source: nameOf(0), Target: nameOf(1)}).Code
				require.Equal(t, errs.OK, ask(p, v, calls.MoveRevoke, calls.MoveRevokeRequest{Client: node(0), Key: "k", Tenant: "default"}).Code)
			}
			require.Equal(t, errs.OK, code)
		}
		require.Len(t, c.get("k").Value.Replicas, 1)
		require.Equal(t, [2]uint64{0, 20}, [2]uint64{p.segments()[1].Writing, p.segments()[1].Held})
	})
}
