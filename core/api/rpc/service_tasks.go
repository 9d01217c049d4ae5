package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func (s *service) CopyStart(ctx context.Context, in *masterv1.CopyStartRequest) (*masterv1.CopyStartResponse, error) {
	kind, err := goKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	if err := checkPlaces(in.GetSource(), in.GetTargets()); err != nil {
		return nil, err
	}
	plan, err := s.master.CopyStart(ctx, goCaller(in.GetCaller()), kind, string(in.GetKey()), in.GetSource(), in.GetTargets())
	if err != nil {
		return nil, err
	}
	return wirePlan(plan), nil
}

func (s *service) CopyEnd(ctx context.Context, in *masterv1.CopyEndRequest) (*masterv1.CopyEndResponse, error) {
	kind, err := goKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	return &masterv1.CopyEndResponse{}, s.master.CopyEnd(ctx, goCaller(in.GetCaller()), kind, string(in.GetKey()))
}

func (s *service) CopyRevoke(ctx context.Context, in *masterv1.CopyRevokeRequest) (*masterv1.CopyRevokeResponse, error) {
	kind, err := goKind(in.GetKind())
	if err != nil {
		return nil, err
	}
	return &masterv1.CopyRevokeResponse{}, s.master.CopyRevoke(ctx, goCaller(in.GetCaller()), kind, string(in.GetKey()))
}

func (s *service) CreateTask(ctx context.Context, in *masterv1.CreateTaskRequest) (*masterv1.CreateTaskResponse, error) {
	spec, err := goTaskSpec(in.GetSpec())
	if err != nil {
		return nil, err
	}
	id, err := s.master.CreateTask(ctx, goCaller(in.GetCaller()), spec)
	if err != nil {
		return nil, err
	}
	return &masterv1.CreateTaskResponse{Id: wireUUID(id)}, nil
}

func (s *service) QueryTask(ctx context.Context, in *masterv1.QueryTaskRequest) (*masterv1.QueryTaskResponse, error) {
	task, err := s.master.QueryTask(ctx, goUUID(in.GetId()))
	if err != nil {
		return nil, err
	}
	return wireTask(task), nil
}

func (s *service) FetchTasks(ctx context.Context, in *masterv1.FetchTasksRequest) (*masterv1.FetchTasksResponse, error) {
	tasks, err := s.master.FetchTasks(ctx, goCaller(in.GetCaller()), int(min(in.GetLimit(), maxFetch)))
	if err != nil {
		return nil, err
	}
	return &masterv1.FetchTasksResponse{Tasks: mapSlice(tasks, wireAssignment)}, nil
}

func (s *service) CompleteTask(ctx context.Context, in *masterv1.CompleteTaskRequest) (*masterv1.CompleteTaskResponse, error) {
	return &masterv1.CompleteTaskResponse{}, s.master.CompleteTask(ctx, goCaller(in.GetCaller()), goUUID(in.GetId()),
		model.TaskStatus(in.GetStatus()), clip(in.GetMessage()))
}
