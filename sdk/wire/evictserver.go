package wire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
)

type evictServer struct {
	evictv1.UnimplementedEvictServiceServer
	lookup func() (evict.Policy, error)
}

func (s *evictServer) Record(ctx context.Context, m *evictv1.RecordRequest) (*evictv1.RecordResponse, error) {
	p, err := s.lookup()
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(m)
	if err != nil {
		return nil, ToStatus(err)
	}
	if err := p.Record(ctx, events); err != nil {
		return nil, ToStatus(err)
	}
	return &evictv1.RecordResponse{}, nil
}

func (s *evictServer) Propose(ctx context.Context, m *evictv1.ProposeRequest) (*evictv1.ProposeResponse, error) {
	p, err := s.lookup()
	if err != nil {
		return nil, err
	}
	if m.GetMaxCandidates() > maxCandidates {
		return nil, ToStatus(errs.New(errs.InvalidParams, "evict propose", "%d candidates wanted, at most %d go into one message", m.GetMaxCandidates(), maxCandidates))
	}
	candidates, err := p.Propose(ctx, make([]evict.Candidate, 0, m.GetMaxCandidates()), m.GetBytes())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		// Nobody will hear of these, so nobody would resolve them.
		_ = p.Resolve(context.WithoutCancel(ctx), spared(candidates))
		return nil, ToStatus(err)
	}
	return encodeCandidates(candidates), nil
}

func (s *evictServer) Resolve(ctx context.Context, m *evictv1.ResolveRequest) (*evictv1.ResolveResponse, error) {
	p, err := s.lookup()
	if err != nil {
		return nil, err
	}
	verdicts, err := decodeVerdicts(m)
	if err != nil {
		return nil, ToStatus(err)
	}
	if err := p.Resolve(ctx, verdicts); err != nil {
		return nil, ToStatus(err)
	}
	return &evictv1.ResolveResponse{}, nil
}

func (s *evictServer) Stats(ctx context.Context, _ *evictv1.StatsRequest) (*evictv1.StatsResponse, error) {
	p, err := s.lookup()
	if err != nil {
		return nil, err
	}
	st, err := p.Stats(ctx)
	if err != nil {
		return nil, ToStatus(err)
	}
	return &evictv1.StatsResponse{Objects: st.Objects, Bytes: st.Bytes, Proposed: st.Proposed}, nil
}
