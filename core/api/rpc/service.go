package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// service translates calls; the errors it returns become statuses in guarded. The batch
// calls are in service_objects.go.
type service struct {
	masterv1.UnimplementedMasterServiceServer
	master store.Master
}

var _ masterv1.MasterServiceServer = (*service)(nil)

func (s *service) Ready(ctx context.Context, _ *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	version, err := s.master.Ready(ctx)
	if err != nil {
		return nil, err
	}
	return &masterv1.ReadyResponse{Version: text(version), Protocol: ownProtocol()}, nil
}

func (s *service) MountSegment(ctx context.Context, in *masterv1.MountSegmentRequest) (*masterv1.MountSegmentResponse, error) {
	return &masterv1.MountSegmentResponse{}, s.master.MountSegment(ctx, goUUID(in.GetClient()), goSegment(in.GetSegment()))
}

func (s *service) RemountSegments(ctx context.Context, in *masterv1.RemountSegmentsRequest) (*masterv1.RemountSegmentsResponse, error) {
	if err := checkItems(len(in.GetSegments())); err != nil {
		return nil, err
	}
	return &masterv1.RemountSegmentsResponse{}, s.master.RemountSegments(ctx, goUUID(in.GetClient()), mapSlice(in.GetSegments(), goSegment))
}

func (s *service) UnmountSegment(ctx context.Context, in *masterv1.UnmountSegmentRequest) (*masterv1.UnmountSegmentResponse, error) {
	return &masterv1.UnmountSegmentResponse{}, s.master.UnmountSegment(ctx, goUUID(in.GetClient()), goUUID(in.GetSegment()), goMillis(in.GetGraceMs()))
}

func (s *service) Ping(ctx context.Context, in *masterv1.PingRequest) (*masterv1.PingResponse, error) {
	reply, err := s.master.Ping(ctx, goUUID(in.GetClient()), model.PingReport{Peers: mapSlice(in.GetPeers(), goPeerReport)})
	if err != nil {
		return nil, err
	}
	return &masterv1.PingResponse{Status: int32(reply.Status), ViewVersion: reply.ViewVersion}, nil
}

func (s *service) Segments(ctx context.Context, _ *masterv1.SegmentsRequest) (*masterv1.SegmentsResponse, error) {
	list, err := s.master.Segments(ctx)
	if err != nil {
		return nil, err
	}
	return &masterv1.SegmentsResponse{Segments: mapSlice(list, wireSegmentInfo)}, nil
}

func (s *service) RemoveByRegex(ctx context.Context, in *masterv1.RemoveByRegexRequest) (*masterv1.RemoveByRegexResponse, error) {
	n, err := s.master.RemoveByRegex(ctx, goCaller(in.GetCaller()), string(in.GetExpression()), in.GetForce())
	if err != nil {
		return nil, err
	}
	return &masterv1.RemoveByRegexResponse{Removed: uint64(max(n, 0))}, nil
}

func (s *service) RemoveAll(ctx context.Context, in *masterv1.RemoveAllRequest) (*masterv1.RemoveAllResponse, error) {
	n, err := s.master.RemoveAll(ctx, goCaller(in.GetCaller()), in.GetForce())
	if err != nil {
		return nil, err
	}
	return &masterv1.RemoveAllResponse{Removed: uint64(max(n, 0))}, nil
}

func (s *service) ListKeys(ctx context.Context, in *masterv1.ListKeysRequest) (*masterv1.ListKeysResponse, error) {
	limit := int(min(in.GetLimit(), maxListKeys))
	keys, err := s.master.ListKeys(ctx, goCaller(in.GetCaller()), string(in.GetExpression()), string(in.GetAfter()), limit)
	if err != nil {
		return nil, err
	}
	page := firstBytes(keys, maxListBytes)
	return &masterv1.ListKeysResponse{Keys: keyBytes(page), More: len(page) < len(keys) || len(keys) >= limit && limit > 0}, nil
}

// firstBytes returns the longest prefix of keys with at most limit bytes, at least one key.
func firstBytes(keys []model.Key, limit int) []model.Key {
	size := 0
	for i, k := range keys {
		if size += len(k); size > limit && i > 0 {
			return keys[:i]
		}
	}
	return keys
}

// checkAnswer refuses an answer of the master that does not fit the question.
func checkAnswer(op string, asked, answered int) error {
	if asked != answered {
		return errs.New(errs.Internal, "master: "+op, "%d answers for %d items", answered, asked)
	}
	return nil
}
