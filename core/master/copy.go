package master

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/grants"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxTargets bounds the targets of one copy.
const maxTargets = 64

// CopyStart begins a copy or move of one object and allocates its targets.
func (s *Service) CopyStart(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	op := "master: " + kind.String() + " start"
	plan, err := s.copyStart(ctx, op, caller, kind, key, source, targets)
	s.counters.Transfer(kind).Start.Done(err != nil)
	return plan, err
}

func (s *Service) copyStart(ctx context.Context, op string, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (plan model.CopyPlan, err error) {
	c, err := s.copyScope(ctx, op, caller)
	if err != nil {
		return plan, err
	}
	if err := s.checkTargets(op, kind, source, targets); err != nil {
		return plan, err
	}
	if err := soughtKey(op, key); err != nil {
		return plan, err
	}
	if err := s.checkPlain(op, caller, targets); err != nil {
		return plan, err
	}
	s.landing.Wait(ctx, c.name(key))
	src, out := s.table.CopySource(c.name(key), source)
	switch {
	case out != objects.Done:
		return plan, outcomeError(out, op, key)
	case caller.Upstream && !src.Plain:
		return plan, outcomeError(objects.NotPlain, op, key)
	}
	// A target that already has a copy needs no new one; a move then only drops the source. A
	// striped copy may move to a segment that has a stripe of it.
	targets = slices.DeleteFunc(slices.Clone(targets), func(t string) bool {
		return slices.Contains(src.Others, t) || (kind == model.CopyObject || len(src.Own) == 1) && slices.Contains(src.Own, t)
	})
	promotes := kind == model.CopyObject && s.inMemory(src.Own) == 0 && s.inMemory(targets) > 0
	if promotes {
		if err := s.mayPromote(op); err != nil {
			return plan, err
		}
	}
	bytes := src.Size * s.inMemory(targets)
	if err := s.chargeCopy(ctx, c, kind, bytes); err != nil {
		return plan, errs.Wrap(errs.CodeOf(err), op, err)
	}
	plan, got, err := s.beginCopy(ctx, op, c, caller, kind, key, src, targets, bytes)
	if err != nil {
		return plan, err
	}
	if promotes {
		s.counters.Promotions.Admitted.Add(1)
	}
	var touched touched
	touched.addAll(slices.Concat(got...))
	late, err := s.await(ctx, touched, nil)
	if late != nil {
		err = lateError(op, late, err)
	} else if err = ctx.Err(); err != nil {
		err = errs.Wrap(errs.RPCTimeout, op, err)
	}
	if err != nil {
		// The caller will never learn of the copy.
		var bin objects.Bin
		s.pool.Enter()
		defer s.pool.Leave()
		s.table.CopyRevoke(c.name(key), s.table.Known(caller.Client), kind, &bin)
		s.reclaim(ctx, &bin, history.MovedAway, true)
		return model.CopyPlan{}, err
	}
	allowed, until := grants.For(ctx, s.registry), s.clock.Now().Add(s.cfg.PutReleaseTimeout)
	from := []model.Replica{plan.Source}
	allowed.Replicas(transport.Read, from, until)
	plan.Source = from[0]
	allowed.Replicas(transport.Write, plan.Targets, until)
	return plan, nil
}

// mayPromote refuses a copy from a storage tier into memory that is used above the watermark, or while too many others are in
// progress.
func (s *Service) mayPromote(op string) error {
	switch _, fill := s.registry.View().Fill(); {
	case fill >= s.cfg.EvictionHighWatermark:
		s.counters.Promotions.RejectedWatermark.Add(1)
		return errs.WithHint(errs.New(errs.NoAvailableHandle, op, "memory is used above the watermark, so that nothing is copied there from storage tiers"), "try again when less is used")
	case s.table.Promoting() >= s.cfg.MaxPromotions:
		s.counters.Promotions.RejectedCap.Add(1)
		return errs.WithHint(errs.New(errs.KeysUltraLimit, op, "%d objects are being copied from storage tiers into memory, the most that may be (promotion_queue_limit)", s.cfg.MaxPromotions),
			"try again when some are done")
	}
	return nil
}

// promoted counts the end of a copy from a storage tier into memory.
func (s *Service) promoted(how objects.Outcome, size uint64) {
	p := &s.counters.Promotions
	switch how {
	case objects.Done:
		p.Completed.Add(1)
		p.CompletedBytes.AddBytes(size)
	case objects.NotCopying:
		p.Failed.Add(1)
	case objects.Unfinished:
		p.Expired.Add(1)
	default:
		p.Cancelled.Add(1)
	}
}

// beginCopy allocates the targets of a copy, for which its tenant was charged, and enters them.
func (s *Service) beginCopy(ctx context.Context, op string, c scope, caller model.Caller, kind model.CopyKind, key model.Key, src objects.Source, targets []string, charged uint64) (plan model.CopyPlan, got [][]segments.Extent, err error) {
	s.pool.Enter()
	defer s.pool.Leave()
	got, err = s.allocCopies(ctx, op, src.Size, targets)
	if err == nil {
		var out objects.Outcome
		plan, out = s.table.CopyBegin(c.name(key), s.table.Known(caller.Client), kind, src.ID, got, s.clock.Now())
		err = outcomeError(out, op, key)
	}
	if err != nil {
		s.refund(c, charged)
		s.pool.Free(ctx, slices.Concat(got...))
	}
	return plan, got, err
}

// copyScope does the checks that are common to all calls about copies.
func (s *Service) copyScope(ctx context.Context, op string, caller model.Caller) (scope, error) {
	c, err := s.admitted(ctx, op, caller, 1)
	if err == nil && caller.Client.IsZero() {
		err = errs.New(errs.InvalidParams, op, "the client ID is zero")
	}
	return c, err
}

func (s *Service) checkTargets(op string, kind model.CopyKind, source string, targets []string) error {
	switch {
	case len(targets) == 0 || len(targets) > maxTargets:
		return errs.New(errs.InvalidParams, op, "%d targets are named; it takes 1 to %d", len(targets), maxTargets)
	case kind == model.MoveObject && len(targets) != 1:
		return errs.New(errs.InvalidParams, op, "%d targets are named; a move has one", len(targets))
	case kind == model.MoveObject && source == "":
		return errs.New(errs.InvalidParams, op, "a move needs the name of the segment to move from")
	case kind == model.MoveObject && slices.Contains(targets, source):
		return errs.New(errs.InvalidParams, op, "segment %q is both source and target", source)
	}
	v := s.registry.View()
	for i, t := range targets {
		if slices.Contains(targets[:i], t) {
			return errs.New(errs.InvalidParams, op, "segment %q is named twice", t)
		}
		named := v.Named(t)
		if len(named) == 0 {
			return errs.New(errs.SegmentNotFound, op, "no segment is called %q", t)
		}
		if !slices.ContainsFunc(named, (*segments.Segment).Allocatable) {
			return errs.New(errs.UnavailableInCurrentStatus, op, "segment %q is %s and takes no objects", t, named[0].Status())
		}
	}
	return nil
}

// checkPlain refuses targets that a client of upstream cannot write.
func (s *Service) checkPlain(op string, caller model.Caller, targets []string) error {
	if !caller.Upstream {
		return nil
	}
	v := s.registry.View()
	for _, t := range targets {
		if slices.ContainsFunc(v.Named(t), func(m *segments.Segment) bool { return !model.PlainProtocol(m.Protocol) }) {
			return errs.New(errs.UnavailableInCurrentStatus, op, "segment %q is reached neither by tcp nor by rdma, which are what upstream's clients use", t)
		}
	}
	return nil
}

// inMemory returns how many of the targets of a copy are in memory.
func (s *Service) inMemory(targets []string) (n uint64) {
	v := s.registry.View()
	for _, t := range targets {
		if named := v.Named(t); len(named) == 0 || !named[0].OnTier() {
			n++
		}
	}
	return n
}

// chargeCopy charges the tenant for the memory of a copy. A move refunds it at its end.
func (s *Service) chargeCopy(ctx context.Context, c scope, kind model.CopyKind, bytes uint64) error {
	if kind == model.CopyObject {
		return s.charge(ctx, c, bytes)
	}
	if c.on {
		s.usage.ChargeAnyway(c.tenant, bytes)
	}
	return nil
}

// allocCopies allocates one extent on each target, or none. The caller is inside the gate, so
// allocCopies evicts nothing: a copy is not worth another object.
func (s *Service) allocCopies(ctx context.Context, op string, size uint64, targets []string) ([][]segments.Extent, error) {
	v := s.registry.View()
	requests := make([]alloc.Request, len(targets))
	for i, t := range targets {
		requests[i].Size = size
		for _, m := range v.Named(t) {
			if m.Allocatable() {
				requests[i].Candidates = append(requests[i].Candidates, m.Space)
			}
		}
	}
	if len(requests) == 0 {
		return nil, nil
	}
	results, err := s.pool.Alloc(ctx, v, requests)
	if err != nil {
		return nil, errs.WithHint(errs.Wrap(errs.NoAvailableHandle, op, err), "the allocator is not available; try again")
	}
	var got [][]segments.Extent
	for i, r := range results {
		if r.Err != nil {
			err = errs.WithHint(errs.New(errs.NoAvailableHandle, op, "segment %q has no space for %d bytes", targets[i], size), "try again, or name another target")
			continue
		}
		got = append(got, []segments.Extent{{Seg: v.Space(r.Extent.Space), Offset: r.Extent.Offset, Size: r.Extent.Size}})
	}
	return got, err
}

// CopyEnd makes the targets readable; a move also removes the source.
func (s *Service) CopyEnd(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	op := "master: " + kind.String() + " end"
	err := s.copyDone(ctx, op, caller, key, false, func(name string, client objects.Client, bin *objects.Bin) objects.Outcome {
		return s.table.CopyEnd(name, client, kind, bin)
	})
	s.counters.Transfer(kind).End.Done(err != nil)
	return err
}

// CopyRevoke abandons the targets.
func (s *Service) CopyRevoke(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	op := "master: " + kind.String() + " revoke"
	err := s.copyDone(ctx, op, caller, key, !caller.Upstream, func(name string, client objects.Client, bin *objects.Bin) objects.Outcome {
		return s.table.CopyRevoke(name, client, kind, bin)
	})
	s.counters.Transfer(kind).Revoke.Done(err != nil)
	return err
}

func (s *Service) copyDone(ctx context.Context, op string, caller model.Caller, key model.Key, writerDone bool, do func(string, objects.Client, *objects.Bin) objects.Outcome) error {
	c, err := s.copyScope(ctx, op, caller)
	if err == nil {
		err = soughtKey(op, key)
	}
	if err != nil {
		return err
	}
	var bin objects.Bin
	s.pool.Enter()
	defer s.pool.Leave()
	out := do(c.name(key), s.table.Known(caller.Client), &bin)
	s.reclaim(ctx, &bin, history.MovedAway, writerDone)
	return outcomeError(out, op, key)
}
