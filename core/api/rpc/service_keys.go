package rpc

import (
	"context"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

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

func (s *service) GetReplicasByRegex(ctx context.Context, in *masterv1.GetReplicasByRegexRequest) (*masterv1.GetReplicasByRegexResponse, error) {
	limit := int(min(in.GetLimit(), maxObjects))
	keys, res, err := s.master.GetReplicasByRegex(ctx, goCaller(in.GetCaller()), string(in.GetExpression()), string(in.GetAfter()), limit)
	if err != nil {
		return nil, err
	}
	if err := checkAnswer("get replicas by regex", len(keys), len(res)); err != nil {
		return nil, err
	}
	n := firstObjects(keys, res, maxObjectsBytes)
	return &masterv1.GetReplicasByRegexResponse{
		Keys: keyBytes(keys[:n]), Objects: wireObjects(res[:n]), More: n < len(keys) || len(keys) >= limit && limit > 0,
	}, nil
}

// What a row of replicas and an object take on the wire at most, beside key and error.
const (
	rowBytes    = 64
	objectBytes = 48
)

// firstObjects returns how many of the objects take at most limit bytes, at least one.
func firstObjects(keys []model.Key, res []model.Result[model.Object], limit int) int {
	size := 0
	for i := range res {
		size += len(keys[i]) + objectBytes + rowBytes*rowsOf(res[i].Value.Replicas)
		if res[i].Err != nil {
			size += maxErrorBytes
		}
		if size > limit && i > 0 {
			return i
		}
	}
	return len(res)
}

func (s *service) ClearReplicas(ctx context.Context, in *masterv1.ClearReplicasRequest) (*masterv1.ClearReplicasResponse, error) {
	keys, err := goKeys(in.GetKeys())
	if err != nil {
		return nil, err
	}
	if err := checkText("segment", in.GetSegment()); err != nil {
		return nil, err
	}
	cleared, err := s.master.ClearReplicas(ctx, goCaller(in.GetCaller()), keys, goUUID(in.GetOwner()), in.GetSegment())
	if err != nil {
		return nil, err
	}
	return &masterv1.ClearReplicasResponse{Cleared: keyBytes(cleared)}, nil
}

func (s *service) Why(ctx context.Context, in *masterv1.WhyRequest) (*masterv1.WhyResponse, error) {
	story, err := s.master.Why(ctx, goCaller(in.GetCaller()), string(in.GetKey()))
	if err != nil {
		return nil, err
	}
	return wireStory(story), nil
}
