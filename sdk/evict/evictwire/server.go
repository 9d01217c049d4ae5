package evictwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

type server struct {
	evictv1.UnimplementedEvictServiceServer
	object func() (evict.Policy, error)
}

func (s *server) Record(ctx context.Context, m *evictv1.RecordRequest) (*evictv1.RecordResponse, error) {
	p, err := s.object()
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(m)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	if m.Capacity != nil {
		err = evict.SetCapacity(ctx, p, m.GetCapacity())
	}
	if err == nil && (len(events) > 0 || m.Capacity == nil) {
		err = p.Record(ctx, events)
	}
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &evictv1.RecordResponse{}, nil
}

func (s *server) Propose(ctx context.Context, m *evictv1.ProposeRequest) (*evictv1.ProposeResponse, error) {
	p, err := s.object()
	if err != nil {
		return nil, err
	}
	if m.GetMaxCandidates() > maxCandidates {
		return nil, wire.ToStatus(errs.New(errs.InvalidParams, "evict propose", "%d candidates wanted, at most %d go into one message", m.GetMaxCandidates(), maxCandidates))
	}
	candidates, err := p.Propose(ctx, make([]evict.Candidate, 0, m.GetMaxCandidates()), m.GetBytes())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		// The host will not learn of these candidates, so it cannot resolve them.
		_ = p.Resolve(context.WithoutCancel(ctx), spared(candidates))
		return nil, wire.ToStatus(err)
	}
	return encodeCandidates(candidates), nil
}

func (s *server) Resolve(ctx context.Context, m *evictv1.ResolveRequest) (*evictv1.ResolveResponse, error) {
	p, err := s.object()
	if err != nil {
		return nil, err
	}
	verdicts, err := decodeVerdicts(m)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	if err := p.Resolve(ctx, verdicts); err != nil {
		return nil, wire.ToStatus(err)
	}
	return &evictv1.ResolveResponse{}, nil
}

func (s *server) Stats(ctx context.Context, _ *evictv1.StatsRequest) (*evictv1.StatsResponse, error) {
	p, err := s.object()
	if err != nil {
		return nil, err
	}
	st, err := p.Stats(ctx)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &evictv1.StatsResponse{Objects: st.Objects, Bytes: st.Bytes, Proposed: st.Proposed}, nil
}
