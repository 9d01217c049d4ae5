package rpc_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (m *tableMaster) CopyStart(_ context.Context, _ model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.objects[key]
	switch {
	case e == nil:
		return model.CopyPlan{}, errs.New(errs.ObjectNotFound, "copy", "no object %q", key)
	case source != "" && e.object.Replicas[0].Segment != source:
		return model.CopyPlan{}, errs.New(errs.ReplicaNotFound, "copy", "no copy on %q", source)
	case e.copying != nil:
		return model.CopyPlan{}, errs.ObjectHasReplicationTask.Err()
	}
	e.copying = &kind
	plan := model.CopyPlan{Source: e.object.Replicas[0], Checksum: e.object.Checksum}
	for i := range targets {
		plan.Targets = append(plan.Targets, m.replica(targets[i:], e.object.Size))
	}
	return plan, nil
}

func (m *tableMaster) endCopy(kind model.CopyKind, key model.Key) error {
	return m.each([]model.Key{key}, func(_ model.Key, e *entry) error {
		switch {
		case e.copying == nil:
			return errs.ObjectNoReplicationTask.Err()
		case *e.copying != kind:
			return errs.New(errs.InvalidParams, "copy end", "a %s is in progress, not a %s", *e.copying, kind)
		}
		e.copying = nil
		return nil
	})[0]
}

func (m *tableMaster) CopyEnd(_ context.Context, _ model.Caller, kind model.CopyKind, key model.Key) error {
	return m.endCopy(kind, key)
}

func (m *tableMaster) CopyRevoke(_ context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	if caller.Client.Hi == 1 {
		return errs.IllegalClient.Err()
	}
	return m.endCopy(kind, key)
}

func (m *tableMaster) CreateTask(_ context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tasks) == 5 {
		return model.TaskID{}, errs.TaskPendingLimitExceeded.Err()
	}
	id := model.UUID{Hi: 9, Lo: uint64(len(m.tasks))}
	at := time.UnixMicro(int64(1e15) + int64(id.Lo))
	m.tasks[id] = &model.Task{ID: id, Spec: spec, Created: at, Updated: at, Assigned: caller.Client}
	return id, nil
}

func (m *tableMaster) QueryTask(_ context.Context, id model.TaskID) (model.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil {
		return model.Task{}, errs.New(errs.TaskNotFound, "query task", "no task %s", id)
	}
	return *t, nil
}

func (m *tableMaster) FetchTasks(_ context.Context, caller model.Caller, limit int) ([]model.Assignment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []model.Assignment
	for _, t := range m.tasks {
		if t.Status == model.TaskPending && t.Assigned == caller.Client {
			out = append(out, model.Assignment{ID: t.ID, Spec: t.Spec, Created: t.Created, MaxRetries: 10})
		}
	}
	slices.SortFunc(out, func(a, b model.Assignment) int { return cmp.Compare(a.ID.Lo, b.ID.Lo) })
	out = out[:min(limit, len(out))]
	for _, a := range out {
		m.tasks[a.ID].Status = model.TaskProcessing
	}
	return out, nil
}

func (m *tableMaster) CompleteTask(_ context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch t := m.tasks[id]; {
	case t == nil:
		return errs.TaskNotFound.Err()
	case t.Assigned != caller.Client:
		return errs.IllegalClient.Err()
	default:
		t.Status, t.Message, t.Updated = status, message, t.Updated.Add(time.Second)
		return nil
	}
}
