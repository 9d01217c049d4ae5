package serve

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// service answers the calls of attached processes.
type service struct {
	localv1.UnimplementedLocalServiceServer
	s *Server
}

func (v *service) client() *client.Client { return v.s.deps.Client }

// intercept bounds calls, counts them, and keeps a panic to its own call.
func (s *Server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.deps.Log.Error("local service: a call panicked", "method", info.FullMethod, "panic", r, "stack", string(debug.Stack()))
			resp, err = nil, wire.ToStatus(errs.Wrap(errs.Internal, "local service", fmt.Errorf("the call panicked: %v", r)))
		}
	}()
	p := callerOf(ctx)
	if p == nil {
		return nil, wire.ToStatus(errs.New(errs.IllegalClient, "local service", "the caller is not attached"))
	}
	var call *localv1.Call
	switch r := req.(type) {
	case *localv1.CancelRequest, *localv1.ReleaseRequest: // They free resources, so no limit applies to them.
		resp, err = next(ctx, req)
		return resp, wire.ToStatus(err)
	case interface{ GetCall() *localv1.Call }:
		call = r.GetCall()
	}
	if r, ok := req.(interface{ GetKeys() [][]byte }); ok {
		if err := s.checkItems(len(r.GetKeys())); err != nil {
			return nil, wire.ToStatus(err)
		}
	}
	ctx, done, err := p.enter(ctx, call)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	defer done()
	resp, err = next(ctx, req)
	return resp, wire.ToStatus(err)
}

// checkItems returns an error for a call with too many items.
func (s *Server) checkItems(n int) error {
	if n > s.cfg.MaxItems {
		return errs.New(errs.InvalidParams, "local service", "%d items in one call; the most is %d", n, s.cfg.MaxItems)
	}
	return nil
}

// Ready implements LocalService.
func (v *service) Ready(ctx context.Context, _ *localv1.ReadyRequest) (*localv1.ReadyResponse, error) {
	version, err := v.client().Ready(ctx)
	if err != nil {
		return nil, err
	}
	return &localv1.ReadyResponse{Version: version}, nil
}

// Cancel implements LocalService.
func (v *service) Cancel(ctx context.Context, req *localv1.CancelRequest) (*localv1.CancelResponse, error) {
	return &localv1.CancelResponse{Found: callerOf(ctx).stop(req.GetId())}, nil
}

// Exist implements LocalService.
func (v *service) Exist(ctx context.Context, req *localv1.ExistRequest) (*localv1.ExistResponse, error) {
	got := v.client().BatchExist(ctx, codec.KeysIn(req.GetKeys()))
	out := &localv1.ExistResponse{Exist: make([]bool, len(got)), Errors: failures(got)}
	for i := range got {
		out.Exist[i] = got[i].Value
	}
	return out, nil
}

// Query implements LocalService.
func (v *service) Query(ctx context.Context, req *localv1.QueryRequest) (*localv1.QueryResponse, error) {
	got := v.client().Query(ctx, codec.KeysIn(req.GetKeys()))
	return &localv1.QueryResponse{Objects: objects(got), Errors: failures(got)}, nil
}

// QueryByRegex implements LocalService.
func (v *service) QueryByRegex(ctx context.Context, req *localv1.QueryByRegexRequest) (*localv1.QueryByRegexResponse, error) {
	keys, got, err := v.client().QueryByRegex(ctx, req.GetExpression(), string(req.GetAfter()), min(int(req.GetLimit()), v.s.cfg.MaxItems))
	if err != nil {
		return nil, err
	}
	return &localv1.QueryByRegexResponse{Keys: codec.KeysOut(keys), Objects: objects(got), Errors: failures(got)}, nil
}

// ListKeys implements LocalService.
func (v *service) ListKeys(ctx context.Context, req *localv1.ListKeysRequest) (*localv1.ListKeysResponse, error) {
	keys, err := v.client().ListKeys(ctx, req.GetExpression(), string(req.GetAfter()), min(int(req.GetLimit()), v.s.cfg.MaxItems))
	return &localv1.ListKeysResponse{Keys: codec.KeysOut(keys)}, err
}

// Remove implements LocalService.
func (v *service) Remove(ctx context.Context, req *localv1.RemoveRequest) (*localv1.RemoveResponse, error) {
	got := v.client().BatchRemove(ctx, codec.KeysIn(req.GetKeys()), req.GetForce())
	return &localv1.RemoveResponse{Errors: errorsOut(got)}, nil
}

// RemoveMany implements LocalService.
func (v *service) RemoveMany(ctx context.Context, req *localv1.RemoveManyRequest) (*localv1.RemoveManyResponse, error) {
	n, err := v.client().RemoveByRegex(ctx, req.GetExpression(), req.GetForce())
	return &localv1.RemoveManyResponse{Removed: uint64(max(n, 0))}, err
}

// ClearReplicas implements LocalService.
func (v *service) ClearReplicas(ctx context.Context, req *localv1.ClearReplicasRequest) (*localv1.ClearReplicasResponse, error) {
	keys, err := v.client().ClearReplicas(ctx, codec.KeysIn(req.GetKeys()), req.GetSegment())
	return &localv1.ClearReplicasResponse{Keys: codec.KeysOut(keys)}, err
}

// CreateTask implements LocalService.
func (v *service) CreateTask(ctx context.Context, req *localv1.CreateTaskRequest) (*localv1.CreateTaskResponse, error) {
	spec := model.TaskSpec{Key: string(req.GetKey()), Targets: req.GetTargets()}
	if req.GetMove() {
		spec.Kind, spec.Source = model.MoveObject, req.GetSource()
		if len(spec.Targets) != 1 {
			return nil, errs.New(errs.InvalidParams, "local service: move", "it has %d targets, must be 1", len(spec.Targets))
		}
	}
	id, err := v.client().CreateTask(ctx, spec)
	return &localv1.CreateTaskResponse{Task: codec.IDOut(id)}, err
}

// QueryTask implements LocalService.
func (v *service) QueryTask(ctx context.Context, req *localv1.QueryTaskRequest) (*localv1.QueryTaskResponse, error) {
	t, err := v.client().QueryTask(ctx, codec.IDIn(req.GetTask()))
	return codec.TaskOut(t), err
}

func objects(got []model.Result[model.Object]) []*localv1.Object {
	out := make([]*localv1.Object, len(got))
	for i := range got {
		out[i] = codec.ObjectOut(got[i].Value)
	}
	return out
}
