package server

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// service translates calls; the errors that it returns become statuses in guarded. The calls on
// objects are in objects.go.
type service struct {
	masterv1.UnimplementedMasterServiceServer
	master store.Master
}

var _ masterv1.MasterServiceServer = (*service)(nil)

// answer makes a message of what the master answered.
func answer[A, B any](to func(A) B) func(A, error) (B, error) {
	return func(a A, err error) (b B, _ error) {
		if err != nil {
			return b, err
		}
		return to(a), nil
	}
}

// checkAnswer refuses an answer of the master that does not fit the question.
func checkAnswer(op string, asked, answered int) error {
	if asked != answered {
		return errs.New(errs.Internal, "master: "+op, "%d answers for %d items", answered, asked)
	}
	return nil
}

func (s *service) Ready(ctx context.Context, in *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	if err := rpc.CheckCaller(in.GetVersion(), in.GetProtocol()); err != nil {
		return nil, err
	}
	return answer(func(version string) *masterv1.ReadyResponse {
		return &masterv1.ReadyResponse{Version: convert.Text(version), Protocol: rpc.OwnProtocol()}
	})(s.master.Ready(ctx))
}

func (s *service) MountSegment(ctx context.Context, in *masterv1.MountSegmentRequest) (*masterv1.MountSegmentResponse, error) {
	return &masterv1.MountSegmentResponse{}, s.master.MountSegment(ctx, convert.FromUUID(in.GetClient()), convert.FromSegment(in.GetSegment()))
}

func (s *service) RemountSegments(ctx context.Context, in *masterv1.RemountSegmentsRequest) (*masterv1.RemountSegmentsResponse, error) {
	if err := convert.CheckItems(len(in.GetSegments())); err != nil {
		return nil, err
	}
	return &masterv1.RemountSegmentsResponse{}, s.master.RemountSegments(ctx, convert.FromUUID(in.GetClient()), convert.Each(in.GetSegments(), convert.FromSegment))
}

func (s *service) Attach(ctx context.Context, in *masterv1.AttachRequest) (*masterv1.AttachResponse, error) {
	if err := convert.CheckItems(len(in.GetLedgers())); err != nil {
		return nil, err
	}
	return answer(convert.ToAttached)(s.master.Attach(ctx, convert.FromUUID(in.GetClient()), convert.Each(in.GetLedgers(), convert.FromLedgerState)))
}

func (s *service) Report(ctx context.Context, in *masterv1.ReportRequest) (*masterv1.ReportResponse, error) {
	return &masterv1.ReportResponse{}, s.master.Report(ctx, convert.FromUUID(in.GetClient()), convert.FromReport(in))
}

func (s *service) Pull(ctx context.Context, in *masterv1.PullRequest) (*masterv1.PullResponse, error) {
	if err := convert.CheckItems(len(in.GetAcks())); err != nil {
		return nil, err
	}
	return answer(convert.ToPulled)(s.master.Pull(ctx, convert.FromUUID(in.GetClient()), in.GetRound(), convert.Each(in.GetAcks(), convert.FromAck)))
}

func (s *service) Follow(ctx context.Context, in *masterv1.FollowRequest) (*masterv1.FollowResponse, error) {
	return &masterv1.FollowResponse{}, s.master.Follow(ctx, in.GetAddress())
}

func (s *service) UnmountSegment(ctx context.Context, in *masterv1.UnmountSegmentRequest) (*masterv1.UnmountSegmentResponse, error) {
	return &masterv1.UnmountSegmentResponse{},
		s.master.UnmountSegment(ctx, convert.FromUUID(in.GetClient()), convert.FromUUID(in.GetSegment()), convert.FromMillis(in.GetGraceMs()))
}

func (s *service) Ping(ctx context.Context, in *masterv1.PingRequest) (*masterv1.PingResponse, error) {
	report, err := convert.FromPing(in)
	if err != nil {
		return nil, err
	}
	return answer(func(reply model.PingReply) *masterv1.PingResponse {
		out := &masterv1.PingResponse{Status: int32(reply.Status), ViewVersion: reply.ViewVersion, Epoch: reply.Epoch, Clock: convert.ToClock(reply.Clock)}
		if t := reply.Tiers; t != nil {
			out.Tiers = &masterv1.TierPolicy{PromoteAt: t.PromoteAt, QueueLimit: t.QueueLimit, OnEvict: t.OnEvict, PromoteMost: t.PromoteMost, Folder: t.Folder, Quota: t.Quota, Keep: t.Keep}
		}
		return out
	})(s.master.Ping(ctx, convert.FromUUID(in.GetClient()), report))
}

func (s *service) Segments(ctx context.Context, _ *masterv1.SegmentsRequest) (*masterv1.SegmentsResponse, error) {
	return answer(func(list []model.SegmentInfo) *masterv1.SegmentsResponse {
		return &masterv1.SegmentsResponse{Segments: convert.Each(list, convert.ToSegmentInfo)}
	})(s.master.Segments(ctx))
}

func (s *service) QueryHosts(ctx context.Context, in *masterv1.QueryHostsRequest) (*masterv1.QueryHostsResponse, error) {
	if err := convert.CheckItems(len(in.GetClients())); err != nil {
		return nil, err
	}
	return answer(func(hosts map[model.ClientID][]string) *masterv1.QueryHostsResponse {
		out := &masterv1.QueryHostsResponse{Clients: make([]*masterv1.ClientHosts, 0, len(hosts))}
		for client, names := range hosts {
			out.Clients = append(out.Clients, &masterv1.ClientHosts{Client: convert.ToUUID(client), Hosts: convert.Each(names, convert.Text)})
		}
		return out
	})(s.master.QueryHosts(ctx, convert.Each(in.GetClients(), convert.FromUUID)))
}

func (s *service) CopyStart(ctx context.Context, in *masterv1.CopyStartRequest) (*masterv1.CopyStartResponse, error) {
	kind, err := convert.FromKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	if err := convert.CheckPlaces(in.GetSource(), in.GetTargets()); err != nil {
		return nil, err
	}
	return answer(convert.ToPlan)(s.master.CopyStart(ctx, convert.FromCaller(in.GetCaller()), kind, string(in.GetKey()), in.GetSource(), in.GetTargets()))
}

func (s *service) CopyEnd(ctx context.Context, in *masterv1.CopyEndRequest) (*masterv1.CopyEndResponse, error) {
	kind, err := convert.FromKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	return &masterv1.CopyEndResponse{}, s.master.CopyEnd(ctx, convert.FromCaller(in.GetCaller()), kind, string(in.GetKey()))
}

func (s *service) CopyRevoke(ctx context.Context, in *masterv1.CopyRevokeRequest) (*masterv1.CopyRevokeResponse, error) {
	kind, err := convert.FromKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	return &masterv1.CopyRevokeResponse{}, s.master.CopyRevoke(ctx, convert.FromCaller(in.GetCaller()), kind, string(in.GetKey()))
}

func (s *service) CreateTask(ctx context.Context, in *masterv1.CreateTaskRequest) (*masterv1.CreateTaskResponse, error) {
	spec, err := convert.FromTaskSpec(in.GetSpec())
	if err != nil {
		return nil, err
	}
	return answer(func(id model.TaskID) *masterv1.CreateTaskResponse {
		return &masterv1.CreateTaskResponse{Id: convert.ToUUID(id)}
	})(s.master.CreateTask(ctx, convert.FromCaller(in.GetCaller()), spec))
}

func (s *service) QueryTask(ctx context.Context, in *masterv1.QueryTaskRequest) (*masterv1.QueryTaskResponse, error) {
	return answer(convert.ToTask)(s.master.QueryTask(ctx, convert.FromUUID(in.GetId())))
}

func (s *service) FetchTasks(ctx context.Context, in *masterv1.FetchTasksRequest) (*masterv1.FetchTasksResponse, error) {
	return answer(func(tasks []model.Assignment) *masterv1.FetchTasksResponse {
		return &masterv1.FetchTasksResponse{Tasks: convert.Each(tasks, convert.ToAssignment)}
	})(s.master.FetchTasks(ctx, convert.FromCaller(in.GetCaller()), int(min(in.GetLimit(), rpc.MaxFetch))))
}

func (s *service) CompleteTask(ctx context.Context, in *masterv1.CompleteTaskRequest) (*masterv1.CompleteTaskResponse, error) {
	return &masterv1.CompleteTaskResponse{}, s.master.CompleteTask(ctx, convert.FromCaller(in.GetCaller()), convert.FromUUID(in.GetId()),
		model.TaskStatus(in.GetStatus()), convert.Clip(in.GetMessage()))
}
