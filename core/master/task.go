package master

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/master/tasks"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxFetch bounds the tasks of one FetchTasks.
const maxFetch = 1024

// CreateTask has a copy or move carried out by the client that owns the source. As with
// upstream, a segment that is not there, and a source without a copy, are InvalidParams.
func (s *Service) CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	id, err := s.startTask(ctx, caller, spec)
	switch errs.CodeOf(err) {
	case errs.SegmentNotFound, errs.ReplicaNotFound:
		err = errs.Wrap(errs.InvalidParams, "", err)
	}
	return id, err
}

// startTask is CreateTask with errors that tell what is missing: SegmentNotFound,
// ReplicaNotFound.
func (s *Service) startTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	id, err := s.createTask(ctx, caller, spec)
	s.counters.CreateTask(spec.Kind).Done(err != nil)
	return id, err
}

func (s *Service) createTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	op := "master: create " + spec.Kind.String() + " task"
	c, err := s.admitted(ctx, op, caller, 1)
	if err != nil {
		return model.TaskID{}, err
	}
	if spec.Kind == model.CopyObject && len(spec.Targets) == 0 {
		return model.TaskID{}, errs.New(errs.InvalidParams, op, "a copy needs the name of a segment to copy to")
	}
	if err := soughtKey(op, spec.Key); err != nil {
		return model.TaskID{}, err
	}
	v, ok := s.table.Look(c.name(spec.Key))
	if !ok {
		return model.TaskID{}, outcomeError(objects.Missing, op, spec.Key)
	}
	if spec.Tenant = c.tenant; len(spec.Targets) <= tasks.MaxTargets {
		spec.Targets = distinct(spec.Targets)
	}
	if err := tasks.Validate(spec); err != nil {
		return model.TaskID{}, errs.Wrap(errs.CodeOf(err), op, err)
	}
	if err := s.checkTargets(op, spec.Kind, spec.Source, spec.Targets); err != nil {
		return model.TaskID{}, err
	}
	if !v.Complete {
		return model.TaskID{}, outcomeError(objects.Unfinished, op, spec.Key)
	}
	source, owner, err := s.taskSource(op, &spec, v.Replicas)
	if err != nil {
		return model.TaskID{}, err
	}
	spec.Source = source
	id, err := s.tasks.Create(spec, owner, s.clock.Stamp())
	return id, errs.Wrap(errs.CodeOf(err), op, err)
}

// taskSource picks the segment that a task reads from, and the client that owns it: the one
// that the task names, else any with a copy, if possible one that is no target. With a copy
// on every target there is nothing to write, and a target can be the source.
func (s *Service) taskSource(op string, spec *model.TaskSpec, copies []model.Replica) (string, model.ClientID, error) {
	type place struct {
		segment string
		owner   model.ClientID
	}
	var free, targets []place
	gone := false
	// A copy in pieces lies on several segments, and any of them names it.
	for _, r := range copies {
		for _, part := range r.Parts {
			if spec.Source != "" && part.Segment != spec.Source {
				continue
			}
			m := s.registry.Get(part.SegmentID)
			switch {
			case m == nil:
				gone = true
			case slices.Contains(spec.Targets, part.Segment):
				targets = append(targets, place{part.Segment, m.Client})
			default:
				free = append(free, place{part.Segment, m.Client})
			}
		}
	}
	if len(free) == 0 {
		free = targets
	}
	switch {
	case len(free) > 0:
		at := free[rand.IntN(len(free))]
		return at.segment, at.owner, nil
	case gone:
		return "", model.ClientID{}, outcomeError(objects.SourceGone, op, spec.Key)
	case len(s.registry.View().Named(spec.Source)) == 0:
		return "", model.ClientID{}, errs.New(errs.SegmentNotFound, op, "no segment is called %q", spec.Source)
	}
	return "", model.ClientID{}, outcomeError(objects.NoReplica, op, spec.Key)
}

// bringBack orders a copy in memory of an object that a client of upstream asked for, if only storage tiers have it, which such a
// client cannot read: the client finds it there when it tries again. The node of a tier counts the reads of other clients by itself.
// Memory that is used above the watermark takes none.
func (s *Service) bringBack(ctx context.Context, c scope, key model.Key) {
	if s.cfg.Tiers == nil || s.cfg.Tiers.PromoteAt == 0 {
		return
	}
	v, ok := s.table.Look(c.name(key))
	if !ok || !v.Complete || v.Copying || slices.ContainsFunc(v.Replicas, func(r model.Replica) bool { return !r.OnTier() }) {
		return
	}
	for i := range v.Replicas {
		source := v.Replicas[i].Segment
		node, _ := model.SplitTier(source)
		takes := func(m *segments.Segment) bool {
			return m.Allocatable() && model.PlainProtocol(m.Protocol) && v.Size <= m.Size
		}
		if !slices.ContainsFunc(s.registry.View().Named(node), takes) {
			continue
		}
		const op = "master: bring an object back from a storage tier"
		if s.mayPromote(op) != nil || !s.wanted.Add(c.name(key), s.clock.Now()) {
			return
		}
		spec := model.TaskSpec{Kind: model.CopyObject, Key: key, Source: source, Targets: []string{node}}
		if _, err := s.createTask(ctx, model.Caller{Tenant: c.tenant}, spec); err != nil {
			s.log.Debug("an object could not be ordered from a storage tier", "key", key, "error", err)
		}
		return
	}
}

// distinct returns names without those that came before.
func distinct(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// QueryTask answers with a task.
func (s *Service) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	err := s.admit(ctx, "master: query task", 0)
	var t model.Task
	if err == nil {
		t, err = s.tasks.Query(id)
	}
	s.counters.QueryTask.Done(err != nil)
	return t, err
}

// FetchTasks gives the caller up to limit of the tasks that wait for it.
func (s *Service) FetchTasks(ctx context.Context, caller model.Caller, limit int) ([]model.Assignment, error) {
	const op = "master: fetch tasks"
	err := s.admit(ctx, op, 0)
	if err == nil && limit < 1 {
		err = errs.New(errs.InvalidParams, op, "the limit is %d; it must be at least 1", limit)
	}
	s.counters.FetchTasks.Done(err != nil)
	if err != nil {
		return nil, err
	}
	return s.tasks.Fetch(caller.Client, min(limit, maxFetch), s.clock.Stamp()), nil
}

// CompleteTask reports a fetched task as done or failed.
func (s *Service) CompleteTask(ctx context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	err := s.admit(ctx, "master: complete task", 0)
	if err == nil {
		err = s.tasks.Complete(caller.Client, id, status, message, s.clock.Stamp())
	}
	s.counters.CompleteTask.Done(err != nil)
	return err
}

// taskEnded is told of every task that ends.
func (s *Service) taskEnded(t model.Task) {
	s.counters.TaskTimes.Observe(t.Updated.Sub(t.Created))
	if t.Status == model.TaskSuccess && t.Spec.Kind == model.MoveObject && (drainPool{s}).StillDraining(t.Spec.Source) == nil {
		c := scope{tenant: t.Spec.Tenant, on: s.tenants != nil}
		if v, ok := s.table.Look(c.name(t.Spec.Key)); ok {
			s.counters.DrainedObjects.Add(1)
			s.counters.DrainedBytes.AddBytes(v.Size)
		}
	}
	s.drains.Wake()
}
