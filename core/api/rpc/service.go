package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// service translates calls; the errors it returns become statuses in guarded. The calls
// on objects are in service_objects.go and service_keys.go, those on copies in service_tasks.go.
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
	report, err := goPing(in)
	if err != nil {
		return nil, err
	}
	reply, err := s.master.Ping(ctx, goUUID(in.GetClient()), report)
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

func (s *service) QueryHosts(ctx context.Context, in *masterv1.QueryHostsRequest) (*masterv1.QueryHostsResponse, error) {
	if err := checkItems(len(in.GetClients())); err != nil {
		return nil, err
	}
	hosts, err := s.master.QueryHosts(ctx, mapSlice(in.GetClients(), goUUID))
	if err != nil {
		return nil, err
	}
	out := &masterv1.QueryHostsResponse{Clients: make([]*masterv1.ClientHosts, 0, len(hosts))}
	for client, names := range hosts {
		out.Clients = append(out.Clients, &masterv1.ClientHosts{Client: wireUUID(client), Hosts: mapSlice(names, text)})
	}
	return out, nil
}

// checkAnswer refuses an answer of the master that does not fit the question.
func checkAnswer(op string, asked, answered int) error {
	if asked != answered {
		return errs.New(errs.Internal, "master: "+op, "%d answers for %d items", answered, asked)
	}
	return nil
}
