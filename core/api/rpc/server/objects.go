package server

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
)

func (s *service) Exist(ctx context.Context, in *masterv1.ExistRequest) (*masterv1.ExistResponse, error) {
	keys, err := convert.FromBatch(in.GetKeys())
	if err != nil {
		return nil, err
	}
	res, err := s.master.Exist(ctx, convert.FromCaller(in.GetCaller()), keys)
	if err != nil {
		return nil, err
	}
	return convert.ToExist(res), checkAnswer("exist", len(keys), len(res))
}

func (s *service) GetReplicas(ctx context.Context, in *masterv1.GetReplicasRequest) (*masterv1.GetReplicasResponse, error) {
	keys, err := convert.FromBatch(in.GetKeys())
	if err != nil {
		return nil, err
	}
	var how *model.Answer[model.Object]
	if in.GetGrains() {
		how = &model.Answer[model.Object]{WithGrains: true}
	}
	res, err := s.master.GetReplicas(ctx, convert.FromCaller(in.GetCaller()), keys, how)
	if err != nil {
		return nil, err
	}
	return convert.ToObjects(res), checkAnswer("get replicas", len(keys), len(res))
}

func (s *service) PutStart(ctx context.Context, in *masterv1.PutStartRequest) (*masterv1.PutStartResponse, error) {
	items, cfg, err := convert.FromPutStart(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutStart(ctx, convert.FromCaller(in.GetCaller()), items, cfg, nil)
	if err != nil {
		return nil, err
	}
	return convert.ToAllocations(res), checkAnswer("put start", len(items), len(res))
}

func (s *service) PutEnd(ctx context.Context, in *masterv1.PutEndRequest) (*masterv1.PutEndResponse, error) {
	items, err := convert.FromPutEnd(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutEnd(ctx, convert.FromCaller(in.GetCaller()), items, nil)
	if err != nil {
		return nil, err
	}
	return &masterv1.PutEndResponse{Errors: convert.ToErrors(len(res), func(i int) error { return res[i] })}, checkAnswer("put end", len(items), len(res))
}

func (s *service) PutRevoke(ctx context.Context, in *masterv1.PutRevokeRequest) (*masterv1.PutRevokeResponse, error) {
	items, err := convert.FromPutRevoke(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutRevoke(ctx, convert.FromCaller(in.GetCaller()), items)
	if err != nil {
		return nil, err
	}
	return convert.ToRevoked(in, res), checkAnswer("put revoke", len(items), len(res))
}

func (s *service) Remove(ctx context.Context, in *masterv1.RemoveRequest) (*masterv1.RemoveResponse, error) {
	keys, err := convert.FromBatch(in.GetKeys())
	if err != nil {
		return nil, err
	}
	res, err := s.master.Remove(ctx, convert.FromCaller(in.GetCaller()), keys, in.GetForce())
	if err != nil {
		return nil, err
	}
	return &masterv1.RemoveResponse{Errors: convert.ToErrors(len(res), func(i int) error { return res[i] })}, checkAnswer("remove", len(keys), len(res))
}

func (s *service) RemoveByRegex(ctx context.Context, in *masterv1.RemoveByRegexRequest) (*masterv1.RemoveByRegexResponse, error) {
	return answer(func(n int) *masterv1.RemoveByRegexResponse {
		return &masterv1.RemoveByRegexResponse{Removed: uint64(max(n, 0))}
	})(
		s.master.RemoveByRegex(ctx, convert.FromCaller(in.GetCaller()), string(in.GetExpression()), in.GetForce()))
}

func (s *service) RemoveAll(ctx context.Context, in *masterv1.RemoveAllRequest) (*masterv1.RemoveAllResponse, error) {
	return answer(func(n int) *masterv1.RemoveAllResponse {
		return &masterv1.RemoveAllResponse{Removed: uint64(max(n, 0))}
	})(
		s.master.RemoveAll(ctx, convert.FromCaller(in.GetCaller()), in.GetForce()))
}

func (s *service) ListKeys(ctx context.Context, in *masterv1.ListKeysRequest) (*masterv1.ListKeysResponse, error) {
	limit := int(min(in.GetLimit(), rpc.MaxListKeys))
	keys, err := s.master.ListKeys(ctx, convert.FromCaller(in.GetCaller()), string(in.GetExpression()), string(in.GetAfter()), limit)
	if err != nil {
		return nil, err
	}
	n := first(len(keys), rpc.MaxListBytes, func(i int) int { return len(keys[i]) })
	return &masterv1.ListKeysResponse{Keys: convert.ToKeys(keys[:n]), More: n < len(keys) || len(keys) >= limit && limit > 0}, nil
}

// first returns how many of n items, from the first on, have at most limit bytes, at least one.
func first(n, limit int, size func(i int) int) int {
	bytes := 0
	for i := range n {
		if bytes += size(i); bytes > limit && i > 0 {
			return i
		}
	}
	return n
}

func (s *service) GetReplicasByRegex(ctx context.Context, in *masterv1.GetReplicasByRegexRequest) (*masterv1.GetReplicasByRegexResponse, error) {
	limit := int(min(in.GetLimit(), rpc.MaxObjects))
	keys, res, err := s.master.GetReplicasByRegex(ctx, convert.FromCaller(in.GetCaller()), string(in.GetExpression()), string(in.GetAfter()), limit)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer("get replicas by regex", len(keys), len(res)); err != nil {
		return nil, err
	}
	n := first(len(res), rpc.MaxObjectsBytes, func(i int) int {
		size := len(keys[i]) + objectBytes + rowBytes*convert.RowsOf(res[i].Value.Replicas)
		if res[i].Err != nil {
			size += rpc.MaxErrorBytes
		}
		return size
	})
	return &masterv1.GetReplicasByRegexResponse{
		Keys: convert.ToKeys(keys[:n]), Objects: convert.ToObjects(res[:n]), More: n < len(keys) || len(keys) >= limit && limit > 0,
	}, nil
}

// What a row of replicas and an object take on the wire at most, beside key and error.
const (
	rowBytes    = 64
	objectBytes = 48
)

func (s *service) ClearReplicas(ctx context.Context, in *masterv1.ClearReplicasRequest) (*masterv1.ClearReplicasResponse, error) {
	keys, err := convert.FromBatch(in.GetKeys())
	if err != nil {
		return nil, err
	}
	if err := convert.CheckText("segment", in.GetSegment()); err != nil {
		return nil, err
	}
	cleared, err := s.master.ClearReplicas(ctx, convert.FromCaller(in.GetCaller()), keys, convert.FromUUID(in.GetOwner()), in.GetSegment())
	if err != nil {
		return nil, err
	}
	return &masterv1.ClearReplicasResponse{Cleared: convert.ToKeys(cleared)}, nil
}

func (s *service) Why(ctx context.Context, in *masterv1.WhyRequest) (*masterv1.WhyResponse, error) {
	return answer(convert.ToStory)(s.master.Why(ctx, convert.FromCaller(in.GetCaller()), string(in.GetKey())))
}
