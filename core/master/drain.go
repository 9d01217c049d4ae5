package master

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/drain"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	opDrain = "master: drain"
	// unitSteps and maxUnits bound what one call of Units looks at and brings.
	unitSteps = 16
	maxUnits  = 1024
)

// CreateDrainJob begins to empty segments.
func (s *Service) CreateDrainJob(ctx context.Context, spec model.DrainSpec) (model.JobID, error) {
	if err := s.admit(ctx, opDrain, len(spec.Segments)+len(spec.Targets)); err != nil {
		return model.JobID{}, err
	}
	return s.drains.Create(spec, s.clock.Stamp())
}

// DrainJob answers with a job.
func (s *Service) DrainJob(ctx context.Context, id model.JobID) (model.DrainJob, error) {
	if err := s.admit(ctx, opDrain, 0); err != nil {
		return model.DrainJob{}, err
	}
	return s.drains.Query(id)
}

// CancelDrainJob gives a job up.
func (s *Service) CancelDrainJob(ctx context.Context, id model.JobID) error {
	if err := s.admit(ctx, opDrain, 0); err != nil {
		return err
	}
	return s.drains.Cancel(id, s.clock.Stamp())
}

// drainPool is the Service as the drain engine sees it.
type drainPool struct{ s *Service }

// Exists implements drain.Pool.
func (p drainPool) Exists(segment string) bool { return len(p.s.registry.View().Named(segment)) > 0 }

// SetDraining implements drain.Pool.
func (p drainPool) SetDraining(names []string) error {
	if err := p.s.lockMounts(context.Background(), opDrain); err != nil {
		return err
	}
	defer p.s.unlockMounts()
	v := p.s.registry.View()
	var all []*segments.Segment
	for _, name := range names {
		named := v.Named(name)
		if len(named) == 0 {
			return errs.New(errs.SegmentNotFound, opDrain, "no segment is called %q", name)
		}
		for _, m := range named {
			if st := m.Status(); st != model.SegmentOK {
				return errs.New(errs.UnavailableInCurrentStatus, opDrain, "segment %q is %s already", name, st)
			}
		}
		all = append(all, named...)
	}
	for i, m := range all {
		if err := p.s.registry.SetStatus(m, model.SegmentDraining, 0); err != nil {
			for _, u := range all[:i] {
				p.set(u, model.SegmentOK)
			}
			return errs.Wrap(errs.CodeOf(err), opDrain, err)
		}
	}
	return nil
}

func (p drainPool) set(m *segments.Segment, to model.SegmentStatus) {
	if err := p.s.registry.SetStatus(m, to, 0); err != nil {
		p.s.log.Debug("a segment kept its status", "segment", m.Name, "wanted", to.String(), "error", err)
	}
}

// StillDraining implements drain.Pool.
func (p drainPool) StillDraining(name string) error {
	v := p.s.registry.View()
	named := v.Named(name)
	if len(named) == 0 || slices.ContainsFunc(v.Away, func(m *segments.Segment) bool { return m.Name == name }) {
		return errs.New(errs.SegmentNotFound, opDrain, "segment %q was unmounted meanwhile, or its node is silent", name)
	}
	for _, m := range named {
		if st := m.Status(); st != model.SegmentDraining {
			return errs.New(errs.UnavailableInCurrentStatus, opDrain, "segment %q is %s now", name, st)
		}
	}
	return nil
}

// SetDrained implements drain.Pool.
func (p drainPool) SetDrained(names []string) {
	p.each(names, model.SegmentDraining, model.SegmentDrained)
}

// SetOK implements drain.Pool.
func (p drainPool) SetOK(names []string) { p.each(names, model.SegmentDraining, model.SegmentOK) }

func (p drainPool) each(names []string, from, to model.SegmentStatus) {
	if p.s.lockMounts(context.Background(), opDrain) != nil {
		return
	}
	defer p.s.unlockMounts()
	v := p.s.registry.View()
	for _, m := range slices.Concat(v.All, v.Away) {
		if m.Status() == from && slices.Contains(names, m.Name) {
			p.set(m, to)
		}
	}
}

// Units implements drain.Pool: so many steps of a walk through the table.
func (p drainPool) Units(segment string, cursor uint64, dst []drain.Unit) ([]drain.Unit, uint64) {
	var found []objects.Located
	at := objects.Cursor(cursor)
	for range unitSteps {
		found, at = p.s.table.On(at, segment, p.s.clock.Now(), found)
		if at == 0 || len(found) > maxUnits/2 {
			break
		}
	}
	for _, l := range found {
		u := drain.Unit{Tenant: model.DefaultTenant, Key: l.Key, Size: l.Size, Blocked: blockedBy(l.Out)}
		if p.s.tenants != nil {
			if t, k, ok := model.SplitKey(l.Key); ok {
				u.Tenant, u.Key = t, k
			}
		}
		dst = append(dst, u)
	}
	return dst, uint64(at)
}

func blockedBy(out objects.Outcome) string {
	switch out {
	case objects.Unfinished:
		return "it is being written"
	case objects.Copying:
		return "a copy or move of it is in progress"
	case objects.Leased:
		return "a reader holds a lease on it"
	case objects.Probed:
		return "it was looked up a moment ago"
	}
	return ""
}

// Target implements drain.Pool: the emptiest segment that has no other copy of the key.
func (p drainPool) Target(segment string, u drain.Unit, candidates []string) (string, bool) {
	c := scope{tenant: u.Tenant, on: p.s.tenants != nil}
	v, ok := p.s.table.Look(c.name(u.Key))
	if !ok {
		return "", false
	}
	taken := map[string]bool{segment: true}
	for _, r := range v.Replicas {
		if names := segmentsOf(r); !slices.Contains(names, segment) {
			for _, name := range names {
				taken[name] = true
			}
		}
	}
	wanted := map[string]bool{}
	for _, name := range candidates {
		wanted[name] = true
	}
	var best *segments.Segment
	for _, m := range p.s.registry.View().All {
		if m.Allocatable() && m.Weight() > 0 && !m.OnTier() && !taken[m.Name] && (len(wanted) == 0 || wanted[m.Name]) && m.Size-min(m.Used(), m.Size) >= u.Size &&
			(best == nil || m.FreeRatio() > best.FreeRatio()) {
			best = m
		}
	}
	if best == nil {
		return "", false
	}
	return best.Name, true
}

// segmentsOf returns the names of the segments on which a copy lies.
func segmentsOf(r model.Replica) (names []string) {
	for _, p := range r.Parts {
		names = append(names, p.Segment)
	}
	return names
}

// StartMove implements drain.Pool.
func (p drainPool) StartMove(spec model.TaskSpec) (model.TaskID, error) {
	return p.s.startTask(context.Background(), model.Caller{Tenant: spec.Tenant}, spec)
}

// Move implements drain.Pool.
func (p drainPool) Move(id model.TaskID) (model.Task, error) { return p.s.tasks.Query(id) }
