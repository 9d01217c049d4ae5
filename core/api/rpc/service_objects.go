package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

func (s *service) Exist(ctx context.Context, in *masterv1.ExistRequest) (*masterv1.ExistResponse, error) {
	keys, err := goKeys(in.GetKeys())
	if err != nil {
		return nil, err
	}
	res, err := s.master.Exist(ctx, goCaller(in.GetCaller()), keys)
	if err != nil {
		return nil, err
	}
	return wireExist(res), checkAnswer("exist", len(keys), len(res))
}

func (s *service) GetReplicas(ctx context.Context, in *masterv1.GetReplicasRequest) (*masterv1.GetReplicasResponse, error) {
	keys, err := goKeys(in.GetKeys())
	if err != nil {
		return nil, err
	}
	res, err := s.master.GetReplicas(ctx, goCaller(in.GetCaller()), keys, nil)
	if err != nil {
		return nil, err
	}
	return wireObjects(res), checkAnswer("get replicas", len(keys), len(res))
}

func (s *service) PutStart(ctx context.Context, in *masterv1.PutStartRequest) (*masterv1.PutStartResponse, error) {
	items, cfg, err := goPutStart(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutStart(ctx, goCaller(in.GetCaller()), items, cfg, nil)
	if err != nil {
		return nil, err
	}
	return wireAllocations(res), checkAnswer("put start", len(items), len(res))
}

func (s *service) PutEnd(ctx context.Context, in *masterv1.PutEndRequest) (*masterv1.PutEndResponse, error) {
	items, err := goPutEnd(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutEnd(ctx, goCaller(in.GetCaller()), items, nil)
	if err != nil {
		return nil, err
	}
	return &masterv1.PutEndResponse{Errors: itemErrors(len(res), func(i int) error { return res[i] })}, checkAnswer("put end", len(items), len(res))
}

func (s *service) PutRevoke(ctx context.Context, in *masterv1.PutRevokeRequest) (*masterv1.PutRevokeResponse, error) {
	items, err := goPutRevoke(in)
	if err != nil {
		return nil, err
	}
	res, err := s.master.PutRevoke(ctx, goCaller(in.GetCaller()), items)
	if err != nil {
		return nil, err
	}
	return wireRevoked(in, res), checkAnswer("put revoke", len(items), len(res))
}

func (s *service) Remove(ctx context.Context, in *masterv1.RemoveRequest) (*masterv1.RemoveResponse, error) {
	keys, err := goKeys(in.GetKeys())
	if err != nil {
		return nil, err
	}
	res, err := s.master.Remove(ctx, goCaller(in.GetCaller()), keys, in.GetForce())
	if err != nil {
		return nil, err
	}
	return &masterv1.RemoveResponse{Errors: itemErrors(len(res), func(i int) error { return res[i] })}, checkAnswer("remove", len(keys), len(res))
}
