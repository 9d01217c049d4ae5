package rest

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TaskRequest is the body that creates a task.
type TaskRequest struct {
	Kind    string   `json:"kind"` // copy or move
	Key     string   `json:"key"`
	Tenant  string   `json:"tenant_id,omitempty"`
	Source  string   `json:"source,omitempty"`
	Targets []string `json:"targets"`
}

func (t TaskRequest) spec() (model.TaskSpec, error) {
	spec := model.TaskSpec{Tenant: t.Tenant, Key: t.Key, Source: t.Source, Targets: t.Targets}
	const op = "admin: task"
	switch t.Kind {
	case model.CopyObject.String():
	case model.MoveObject.String():
		spec.Kind = model.MoveObject
	default:
		return spec, errs.New(errs.InvalidParams, op, "kind is %.100q; it is copy or move", t.Kind)
	}
	if err := model.ValidateKey(t.Key); err != nil {
		return spec, errs.Wrap(errs.InvalidParams, op, err)
	}
	switch {
	case len(t.Targets) == 0:
		return spec, errs.New(errs.InvalidParams, op, "targets is empty; name the segments to write to")
	case spec.Kind == model.MoveObject && (len(t.Targets) != 1 || t.Source == ""):
		return spec, errs.New(errs.InvalidParams, op, "a move has a source and exactly one target")
	}
	return spec, nil
}

// Task is a copy or move that a client carries out.
type Task struct {
	ID       string    `json:"task_id"`
	Kind     string    `json:"kind"`
	Tenant   string    `json:"tenant_id"`
	Key      string    `json:"key"`
	Source   string    `json:"source"`
	Targets  []string  `json:"targets"`
	Status   string    `json:"status"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Assigned string    `json:"assigned_client"`
	Message  string    `json:"message"`
}

// TaskCreated names a new task.
type TaskCreated struct {
	ID string `json:"task_id"`
}

func (h *handler) createTask(a *asked) (TaskCreated, error) {
	var body TaskRequest
	a.json(&body, true)
	spec, caller := try(a, body.spec), a.tenant(body.Tenant)
	spec.Tenant = caller.Tenant
	a.about = fmt.Sprintf("%s of %.500q of tenant %q from %.500q to %.500q", body.Kind, body.Key, caller.Tenant, body.Source, body.Targets)
	id := try(a, func() (model.TaskID, error) { return h.master.CreateTask(a.Context(), caller, spec) })
	return TaskCreated{id.String()}, a.err
}

func (h *handler) queryTask(a *asked) (Task, error) {
	id := a.id("task_id")
	t := try(a, func() (model.Task, error) {
		t, err := h.master.QueryTask(a.Context(), id)
		if err != nil {
			return t, err
		}
		return access.OwnTask(a.Context(), t)
	})
	return Task{
		ID: t.ID.String(), Kind: t.Spec.Kind.String(), Tenant: t.Spec.Tenant, Key: t.Spec.Key, Source: t.Spec.Source,
		Targets: append([]string{}, t.Spec.Targets...), Status: t.Status.String(), Created: t.Created, Updated: t.Updated,
		Assigned: t.Assigned.String(), Message: t.Message,
	}, a.err
}
