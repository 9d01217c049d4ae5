package app

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// unknown makes the answer of a cell that does not know the segments of a job an empty one.
func unknown(id model.JobID, err error) (model.JobID, error) {
	if errs.Is(err, errs.SegmentNotFound) {
		return model.JobID{}, nil
	}
	return id, err
}

// CreateDrainJob implements rest.Master: each cell moves its objects off its own segments.
func (w whole) CreateDrainJob(ctx context.Context, spec model.DrainSpec) (model.JobID, error) {
	ids, err := atLeaders(ctx, w, func(s *master.Service) (model.JobID, error) { return unknown(s.CreateDrainJob(ctx, spec)) },
		func(c *rest.Client) (model.JobID, error) {
			text, err := c.CreateDrainJob(ctx, rest.DrainRequest{Segments: spec.Segments, Targets: spec.Targets, MaxConcurrency: &spec.MaxConcurrency})
			if err != nil {
				return unknown(model.JobID{}, err)
			}
			return model.ParseUUID(text)
		})
	if err != nil {
		return model.JobID{}, err
	}
	for _, id := range ids {
		if !id.IsZero() {
			return w.of.drains.add(ids), nil
		}
	}
	return model.JobID{}, errs.New(errs.SegmentNotFound, "admin: drain job", "no cell knows one of the segments %v", spec.Segments)
}

// DrainJob implements rest.Master: the jobs of the cells together.
func (w whole) DrainJob(ctx context.Context, id model.JobID) (model.DrainJob, error) {
	jobs, err := w.each(ctx, id, func(s *master.Service, id model.JobID) (model.DrainJob, error) { return s.DrainJob(ctx, id) },
		func(c *rest.Client, id model.JobID) (model.DrainJob, error) {
			j, err := c.DrainJob(ctx, id.String())
			return jobOf(j), err
		})
	if err != nil {
		return model.DrainJob{}, err
	}
	sum := jobs[0]
	for _, j := range jobs[1:] {
		sum.Status = worse(sum.Status, j.Status)
		sum.Succeeded, sum.Failed, sum.Blocked, sum.Active = sum.Succeeded+j.Succeeded, sum.Failed+j.Failed, sum.Blocked+j.Blocked, sum.Active+j.Active
		sum.MigratedBytes += j.MigratedBytes
		if j.Updated.After(sum.Updated) {
			sum.Updated = j.Updated
		}
		if sum.Message == "" {
			sum.Message = j.Message
		}
	}
	sum.ID = id
	return sum, nil
}

// worse is the status of two jobs together: a job runs while one of them does, and has failed if one has.
func worse(a, b model.JobStatus) model.JobStatus {
	switch {
	case a.Final() == b.Final():
		return max(a, b)
	case a.Final():
		return b
	}
	return a
}

// CancelDrainJob implements rest.Master.
func (w whole) CancelDrainJob(ctx context.Context, id model.JobID) error {
	_, err := w.each(ctx, id, func(s *master.Service, id model.JobID) (none model.DrainJob, err error) {
		return none, s.CancelDrainJob(ctx, id)
	},
		func(c *rest.Client, id model.JobID) (none model.DrainJob, err error) {
			return none, c.CancelDrainJob(ctx, id.String())
		})
	return err
}

// each asks the cells that have a job.
func (w whole) each(ctx context.Context, id model.JobID, here func(*master.Service, model.JobID) (model.DrainJob, error),
	there func(*rest.Client, model.JobID) (model.DrainJob, error),
) (out []model.DrainJob, err error) {
	ids, err := w.of.drains.get(id)
	if err != nil {
		return nil, err
	}
	for i, s := range w.leading() {
		var j model.DrainJob
		switch {
		case ids[i].IsZero():
			continue
		case s != nil:
			j, err = here(s, ids[i])
		default:
			j, err = atLeader(w, i, func(c *rest.Client) (model.DrainJob, error) { return there(c, ids[i]) })
		}
		if err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	return out, ctx.Err()
}

func jobOf(j rest.Job) model.DrainJob {
	return model.DrainJob{
		Spec: model.DrainSpec{Segments: j.Segments}, Status: model.JobStatus(j.Status), Created: time.UnixMilli(j.Created), Updated: time.UnixMilli(j.Updated),
		Succeeded: j.Succeeded, Failed: j.Failed, Blocked: j.Blocked, Active: j.Active, MigratedBytes: j.Migrated, Message: j.Text,
	}
}
