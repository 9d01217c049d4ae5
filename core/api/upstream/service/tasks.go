package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func addTasks(t table) {
	serve(t, calls.CreateCopyTask, func(s *Service, ctx context.Context, v calls.Version, q *calls.CreateCopyTaskRequest) calls.Expected[model.UUID] {
		return s.createTask(ctx, v, q.Tenant, model.TaskSpec{Kind: model.CopyObject, Key: q.Key, Targets: q.Targets})
	})
	serve(t, calls.CreateMoveTask, func(s *Service, ctx context.Context, v calls.Version, q *calls.CreateMoveTaskRequest) calls.Expected[model.UUID] {
		return s.createTask(ctx, v, q.Tenant, model.TaskSpec{Kind: model.MoveObject, Key: q.Key, Source: q.Source, Targets: []string{q.Target}})
	})
	serve(t, calls.QueryTask, (*Service).queryTask)
	serve(t, calls.FetchTasks, (*Service).fetchTasks)
	serve(t, calls.MarkTaskToComplete, func(s *Service, ctx context.Context, v calls.Version, q *calls.MarkTaskToCompleteRequest) calls.Expected[calls.Void] {
		return void(v, s.master.CompleteTask(ctx, caller(q.Client, ""), q.Task.ID, model.TaskStatus(q.Task.Status), strings.Clone(q.Task.Message)))
	})
	serve(t, calls.CopyStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.CopyStartRequest) calls.Expected[calls.CopyStartResponse] {
		plan, err := s.copyStart(ctx, model.CopyObject, q)
		return value(v, plan, err)
	})
	serve(t, calls.MoveStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.MoveStartRequest) calls.Expected[calls.MoveStartResponse] {
		plan, err := s.copyStart(ctx, model.MoveObject, &calls.CopyStartRequest{
			Client: q.Client, Key: q.Key, Tenant: q.Tenant, Source: q.Source, Targets: []string{q.Target},
		})
		out := calls.MoveStartResponse{Source: plan.Source}
		if len(plan.Targets) > 0 {
			out.Target = calls.Optional[calls.Descriptor]{Value: plan.Targets[0], Present: true}
		}
		return value(v, out, err)
	})
	for _, f := range []struct {
		end, revoke *calls.Call[calls.CopyEndRequest, calls.Expected[calls.Void]]
		kind        model.CopyKind
	}{{calls.CopyEnd, calls.CopyRevoke, model.CopyObject}, {calls.MoveEnd, calls.MoveRevoke, model.MoveObject}} {
		serve(t, f.end, func(s *Service, ctx context.Context, v calls.Version, q *calls.CopyEndRequest) calls.Expected[calls.Void] {
			return void(v, s.copyDone(ctx, q, f.kind, s.master.CopyEnd))
		})
		serve(t, f.revoke, func(s *Service, ctx context.Context, v calls.Version, q *calls.CopyEndRequest) calls.Expected[calls.Void] {
			return void(v, s.copyDone(ctx, q, f.kind, s.master.CopyRevoke))
		})
	}
}

func (s *Service) createTask(ctx context.Context, v calls.Version, tenant string, spec model.TaskSpec) calls.Expected[model.UUID] {
	spec.Tenant, spec.Key, spec.Source, spec.Targets = strings.Clone(tenant), strings.Clone(spec.Key), strings.Clone(spec.Source), clones(spec.Targets)
	id, err := s.master.CreateTask(ctx, caller(model.ClientID{}, spec.Tenant), spec)
	return value(v, id, err)
}

func (s *Service) queryTask(ctx context.Context, v calls.Version, q *calls.QueryTaskRequest) calls.Expected[calls.QueryTaskResponse] {
	t, err := s.master.QueryTask(ctx, q.Task)
	return value(v, calls.QueryTaskResponse{
		ID: t.ID, Type: calls.TaskType(t.Spec.Kind), Status: calls.TaskStatus(t.Status), Created: t.Created.UnixMilli(), Updated: t.Updated.UnixMilli(),
		Client: t.Assigned, Message: t.Message,
	}, err)
}

// mostTasks bounds the tasks of one answer.
const mostTasks = 1024

func (s *Service) fetchTasks(ctx context.Context, v calls.Version, q *calls.FetchTasksRequest) calls.Expected[[]calls.TaskAssignment] {
	var out []calls.TaskAssignment
	if q.Most == 0 {
		return value(v, out, nil)
	}
	got, err := s.master.FetchTasks(ctx, caller(q.Client, ""), int(min(q.Most, mostTasks)))
	for i := range got {
		a := &got[i]
		text, err := payload(v, &a.Spec)
		if err != nil {
			s.giveUp(ctx, q.Client, a, err)
			continue
		}
		out = append(out, calls.TaskAssignment{ID: a.ID, Type: calls.TaskType(a.Spec.Kind), Payload: text, Created: a.Created.UnixMilli(), Retries: a.MaxRetries})
	}
	return value(v, out, err)
}

// giveUp ends a task that its client cannot be told of.
func (s *Service) giveUp(ctx context.Context, client model.ClientID, a *model.Assignment, why error) {
	if err := s.master.CompleteTask(ctx, caller(client, a.Spec.Tenant), a.ID, model.TaskFailed, why.Error()); err != nil {
		s.log.Warn("the end of a task could not be reported, the master ends it by its timeout", "task", a.ID, "error", err)
	}
}

type (
	copyPayload struct {
		Tenant  *string  `json:"tenant_id,omitempty"` // since V12
		Key     string   `json:"key"`
		Source  string   `json:"source"`
		Targets []string `json:"targets"`
		*leasePayload
	}
	// leasePayload says since V13 that no lease of dynamic replication is to be kept.
	leasePayload struct {
		High  uint64 `json:"dynamic_replication_lease_id_high"`
		Low   uint64 `json:"dynamic_replication_lease_id_low"`
		Epoch uint64 `json:"dynamic_replication_version_epoch"`
	}
	movePayload struct {
		Tenant *string `json:"tenant_id,omitempty"` // since V12
		Key    string  `json:"key"`
		Source string  `json:"source"`
		Target string  `json:"target"`
	}
)

// payload returns the arguments of a task as a version reads them. InvalidKey for what JSON cannot carry.
func payload(v calls.Version, spec *model.TaskSpec) (string, error) {
	if !utf8.ValidString(spec.Key) {
		return "", errs.New(errs.InvalidKey, "upstream: fetch tasks", "the key %q is not UTF-8, and upstream's clients get it in JSON", spec.Key)
	}
	var tenant *string
	if v >= calls.V12 {
		name := cmp.Or(spec.Tenant, model.DefaultTenant)
		tenant = &name
	}
	var it any
	if spec.Kind == model.MoveObject {
		it = movePayload{Tenant: tenant, Key: spec.Key, Source: spec.Source, Target: spec.Targets[0]}
	} else {
		c := copyPayload{Tenant: tenant, Key: spec.Key, Source: spec.Source, Targets: spec.Targets}
		if v >= calls.V13 {
			c.leasePayload = &leasePayload{}
		}
		it = c
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(it); err != nil {
		return "", errs.Wrap(errs.SerializeFail, "upstream: fetch tasks", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (s *Service) copyStart(ctx context.Context, kind model.CopyKind, q *calls.CopyStartRequest) (calls.CopyStartResponse, error) {
	const op = "upstream: copy start"
	if err := model.ValidateSought(q.Key); err != nil && len(q.Targets) == 0 {
		return calls.CopyStartResponse{}, errs.Wrap(errs.CodeOf(err), op, err)
	}
	who := caller(q.Client, q.Tenant)
	plan, err := s.master.CopyStart(ctx, who, kind, q.Key, q.Source, distinct(q.Targets))
	if errs.Is(err, errs.ReplicaIsNotReady) { // To upstream, a replica that cannot be copied is none.
		err = errs.Wrap(errs.ReplicaNotFound, op, err)
	}
	if err != nil {
		return calls.CopyStartResponse{}, err
	}
	out, plain := calls.CopyStartResponse{Source: descriptor(&plan.Source)}, plan.Source.Plain()
	for i := range plan.Targets {
		plain = plain && plan.Targets[i].Plain()
		out.Targets = append(out.Targets, descriptor(&plan.Targets[i]))
	}
	if plain {
		return out, nil
	}
	// A master of an earlier release planned it. The client never learns of it.
	who.Upstream = false
	if err := s.master.CopyRevoke(ctx, who, kind, q.Key); err != nil {
		s.log.Warn("a copy that an upstream client cannot make could not be taken back; the master gives it up by its timeout", "key", q.Key, "error", err)
	}
	return calls.CopyStartResponse{}, errs.New(errs.ReplicaIsNotReady, op, "upstream's clients cannot copy %q from or to there", q.Key)
}

// copyDone ends or revokes a copy or move. Of an empty key there is none, whoever asks.
func (s *Service) copyDone(ctx context.Context, q *calls.CopyEndRequest, kind model.CopyKind, do func(context.Context, model.Caller, model.CopyKind, model.Key) error) error {
	if err := model.ValidateSought(q.Key); err != nil {
		return errs.Wrap(errs.CodeOf(err), "upstream: end of a copy", err)
	}
	return do(ctx, caller(q.Client, q.Tenant), kind, q.Key)
}

// distinct returns the different ones of the names that a client gives.
func distinct(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
