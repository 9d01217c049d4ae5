package store_test

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (l *ledger) GetReplicasByRegex(ctx context.Context, c model.Caller, expr string, _ model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	l.mu.Lock()
	keys := l.match(c, expr)
	l.mu.Unlock()
	keys = keys[:min(limit, len(keys))]
	res, err := l.GetReplicas(ctx, c, keys, nil)
	return keys, res, err
}

func (l *ledger) Remove(_ context.Context, c model.Caller, keys []model.Key, _ bool) ([]error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]error, len(keys))
	for i, k := range keys {
		if l.objects[at(c, k)] == nil {
			out[i] = code(errs.ObjectNotFound)
		}
		delete(l.objects, at(c, k))
	}
	return out, nil
}

func (l *ledger) RemoveByRegex(ctx context.Context, c model.Caller, expr string, force bool) (int, error) {
	l.mu.Lock()
	keys := l.match(c, expr)
	l.mu.Unlock()
	_, err := l.Remove(ctx, c, keys, force)
	return len(keys), err
}

func (l *ledger) RemoveAll(ctx context.Context, c model.Caller, force bool) (int, error) {
	return l.RemoveByRegex(ctx, c, "", force)
}

func (l *ledger) ListKeys(_ context.Context, c model.Caller, expr string, _ model.Key, limit int) ([]model.Key, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.match(c, expr)
	return keys[:min(limit, len(keys))], nil
}

func (l *ledger) ClearReplicas(ctx context.Context, c model.Caller, keys []model.Key, owner model.ClientID, _ string) ([]model.Key, error) {
	l.mu.Lock()
	var mine []model.Key
	for _, k := range keys {
		if o := l.objects[at(c, k)]; o != nil && o.owner == owner {
			mine = append(mine, k)
		}
	}
	l.mu.Unlock()
	_, err := l.Remove(ctx, c, mine, true)
	return mine, err
}

func (l *ledger) Why(_ context.Context, c model.Caller, key model.Key) (model.Story, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := model.Story{Key: key, Tenant: c.Tenant, Reason: "nothing is known of it"}
	if o := l.objects[at(c, key)]; o != nil {
		s.Fate, s.Size, s.Group, s.Creator, s.Replicas = model.FateReadable, o.obj.Size, o.group, o.owner, o.obj.Replicas
	}
	return s, nil
}

func (l *ledger) CopyStart(_ context.Context, c model.Caller, kind model.CopyKind, key model.Key, _ string, targets []string) (model.CopyPlan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := at(c, key)
	o := l.objects[k]
	switch {
	case o == nil:
		return model.CopyPlan{}, code(errs.ObjectNotFound)
	case l.copies[k] != nil:
		return model.CopyPlan{}, code(errs.ObjectHasReplicationTask)
	case l.full > 0:
		l.full--
		return model.CopyPlan{}, code(errs.NoAvailableHandle)
	}
	plan := model.CopyPlan{Source: o.obj.Replicas[0], Checksum: o.obj.Checksum}
	for _, t := range targets {
		i := slices.IndexFunc(l.segs, func(s *ledgerSegment) bool { return s.Name == t })
		if i < 0 {
			return model.CopyPlan{}, code(errs.SegmentNotFound)
		}
		r, ok := l.place(o.obj.Size, i)
		if !ok {
			return model.CopyPlan{}, code(errs.NoAvailableHandle)
		}
		plan.Targets = append(plan.Targets, r)
	}
	l.copies[k] = &ledgerCopy{kind, plan}
	return plan, nil
}

func (l *ledger) CopyEnd(_ context.Context, c model.Caller, _ model.CopyKind, key model.Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := at(c, key)
	cp, o := l.copies[k], l.objects[k]
	if cp == nil || o == nil {
		return code(errs.ObjectNoReplicationTask)
	}
	delete(l.copies, k)
	if cp.kind == model.MoveObject {
		o.obj.Replicas = nil
	}
	o.obj.Replicas = append(o.obj.Replicas, cp.plan.Targets...)
	return nil
}

func (l *ledger) CopyRevoke(_ context.Context, c model.Caller, _ model.CopyKind, key model.Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.copies, at(c, key))
	return nil
}

// forget does what a master does with an object whose segments went: the copy in progress
// is given up as well.
func (l *ledger) forget(key model.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := at(model.Caller{}, key)
	delete(l.objects, k)
	delete(l.copies, k)
}

func (l *ledger) CreateTask(_ context.Context, c model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[at(c, spec.Key)]
	if o == nil {
		return model.TaskID{}, code(errs.ObjectNotFound)
	}
	t := &model.Task{ID: model.NewUUID(), Spec: spec, Created: time.Now()}
	for _, s := range l.segs {
		if s.ID == o.obj.Replicas[0].SegmentID {
			t.Assigned = s.client
		}
	}
	l.tasks = append(l.tasks, t)
	return t.ID, nil
}

func (l *ledger) task(id model.TaskID) *model.Task {
	for _, t := range l.tasks {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (l *ledger) QueryTask(_ context.Context, id model.TaskID) (model.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.task(id); t != nil {
		return *t, nil
	}
	return model.Task{}, code(errs.TaskNotFound)
}

func (l *ledger) FetchTasks(_ context.Context, c model.Caller, limit int) ([]model.Assignment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []model.Assignment
	for _, t := range l.tasks {
		if t.Status == model.TaskPending && t.Assigned == c.Client && len(out) < limit {
			t.Status = model.TaskProcessing
			out = append(out, model.Assignment{ID: t.ID, Spec: t.Spec, MaxRetries: 5})
		}
	}
	return out, nil
}

func (l *ledger) CompleteTask(_ context.Context, c model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.task(id)
	switch {
	case t == nil:
		return code(errs.TaskNotFound)
	case t.Assigned != c.Client:
		return code(errs.IllegalClient)
	}
	t.Status, t.Message = status, message
	return nil
}
