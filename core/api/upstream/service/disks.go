package service

import (
	"context"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// This answers the calls of clients that keep objects on disks of their own, on NoF segments, or as replicas that upstream's
// master has them add. This master does not use them: its storage tiers are those of its own nodes, which have a ledger. Such a
// client goes on without: it is never given an object to write to its disk, and none to bring back.
func addDisks(t table) {
	serve(t, calls.MountLocalDiskSegment, func(s *Service, _ context.Context, v calls.Version, q *calls.MountLocalDiskSegmentRequest) calls.Expected[calls.Void] {
		s.log.Info("the disk of an upstream client is not used; storage tiers are those of this project's nodes", "client", q.Client.String())
		return void(v, nil)
	})
	serve(t, calls.UnmountLocalDiskSegment, func(_ *Service, _ context.Context, v calls.Version, _ *calls.UnmountLocalDiskSegmentRequest) calls.Expected[calls.Void] {
		return void(v, nil)
	})
	serve(t, calls.ReportSsdCapacity, func(_ *Service, _ context.Context, v calls.Version, _ *calls.ReportSsdCapacityRequest) calls.Expected[calls.Void] {
		return void(v, nil)
	})
	serve(t, calls.OffloadObjectHeartbeat, func(_ *Service, _ context.Context, v calls.Version, _ *calls.OffloadObjectHeartbeatRequest) calls.Expected[[]calls.OffloadTask] {
		return value(v, []calls.OffloadTask(nil), nil)
	})
	// A client that found objects on its disk at its start sends them. An error would end it.
	serve(t, calls.NotifyOffloadSuccess, func(_ *Service, _ context.Context, v calls.Version, _ *calls.NotifyOffloadSuccessRequest) calls.Expected[calls.Void] {
		return void(v, nil)
	})
	serve(t, calls.PollRemoveAll, func(_ *Service, _ context.Context, v calls.Version, _ *calls.PollRemoveAllRequest) calls.Expected[bool] {
		return value(v, false, nil)
	})
	serve(t, calls.PromotionObjectHeartbeat, func(_ *Service, _ context.Context, v calls.Version, _ *calls.PromotionObjectHeartbeatRequest) calls.Expected[[]calls.OffloadTask] {
		return value(v, []calls.OffloadTask(nil), nil)
	})
	serve(t, calls.PromotionAllocStart, func(_ *Service, _ context.Context, v calls.Version, q *calls.PromotionAllocStartRequest) calls.Expected[calls.PromotionAllocStartResponse] {
		return value(v, calls.PromotionAllocStartResponse{}, notPromoted(q.Key))
	})
	for _, f := range []*calls.Call[calls.CopyEndRequest, calls.Expected[calls.Void]]{calls.NotifyPromotionSuccess, calls.NotifyPromotionFailure} {
		serve(t, f, func(_ *Service, _ context.Context, v calls.Version, q *calls.CopyEndRequest) calls.Expected[calls.Void] {
			return void(v, notPromoted(q.Key))
		})
	}

	serve(t, calls.MountNoFSegment, func(_ *Service, _ context.Context, v calls.Version, q *calls.MountNoFSegmentRequest) calls.Expected[calls.Void] {
		return void(v, noNoF(q.Segment.Name))
	})
	serve(t, calls.ReMountNoFSegment, func(_ *Service, _ context.Context, v calls.Version, _ *calls.ReMountNoFSegmentRequest) calls.Expected[calls.Void] {
		return void(v, noNoF(""))
	})
	serve(t, calls.UnmountNoFSegment, func(_ *Service, _ context.Context, v calls.Version, q *calls.UnmountNoFSegmentRequest) calls.Expected[calls.Void] {
		return void(v, noNoF(q.Segment.String()))
	})
	serve(t, calls.GetAllNoFSegments, func(_ *Service, _ context.Context, v calls.Version, _ *calls.Void) calls.Expected[[]calls.NoFSegment] {
		return value(v, []calls.NoFSegment(nil), nil)
	})
	serve(t, calls.GetNoFSegmentsByName, func(_ *Service, _ context.Context, v calls.Version, q *calls.GetNoFSegmentsByNameRequest) calls.Expected[[]calls.NoFOwner] {
		return value(v, []calls.NoFOwner(nil), errs.New(errs.SegmentNotFound, "upstream: NoF segments", "none is called %q", q.Segment))
	})

	serve(t, calls.DynamicReplicaCopyStart, func(_ *Service, _ context.Context, v calls.Version, q *calls.DynamicReplicaCopyStartRequest) calls.Expected[calls.CopyStartResponse] {
		return value(v, calls.CopyStartResponse{}, notOrdered(q.Key))
	})
	for _, f := range []*calls.Call[calls.DynamicReplicaCopyEndRequest, calls.Expected[calls.Void]]{calls.DynamicReplicaCopyEnd, calls.DynamicReplicaCopyRevoke} {
		serve(t, f, func(_ *Service, _ context.Context, v calls.Version, q *calls.DynamicReplicaCopyEndRequest) calls.Expected[calls.Void] {
			return void(v, notOrdered(q.Key))
		})
	}
}

func notPromoted(key string) error {
	return errs.New(errs.ObjectNotFound, "upstream: promotion", "no client was told to bring %q back from its disk", key)
}

func noNoF(segment string) error {
	return errs.New(errs.UnavailableInCurrentMode, "upstream: NoF segment", "segment %q: this master has no NVMe-oF segments", segment)
}

// notOrdered is the error of a copy that only a master orders.
func notOrdered(key string) error {
	const op = "upstream: dynamic replica copy"
	if err := model.ValidateSought(key); err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	return errs.New(errs.UnavailableInCurrentMode, op, "this master orders no such copy of %q", key)
}
