package service

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func addObjects(t table) {
	serve(t, calls.ExistKey, func(s *Service, ctx context.Context, v calls.Version, q *calls.ExistKeyRequest) calls.Expected[bool] {
		return s.exist(ctx, v, []string{q.Key}, q.Tenant)[0]
	})
	serve(t, calls.BatchExistKey, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchExistKeyRequest) []calls.Expected[bool] {
		return s.exist(ctx, v, q.Keys, q.Tenant)
	})
	serve(t, calls.GetReplicaList, func(s *Service, ctx context.Context, v calls.Version, q *calls.GetReplicaListRequest) calls.Expected[calls.ReplicaList] {
		return s.replicas(ctx, v, []string{q.Key}, q.Tenant)[0]
	})
	serve(t, calls.BatchGetReplicaList, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchGetReplicaListRequest) []calls.Expected[calls.ReplicaList] {
		return s.replicas(ctx, v, q.Keys, q.Tenant)
	})
	serve(t, calls.GetReplicaListByRegex, (*Service).replicasByRegex)
	serve(t, calls.Remove, func(s *Service, ctx context.Context, v calls.Version, q *calls.RemoveRequest) calls.Expected[calls.Void] {
		return s.remove(ctx, v, []string{q.Key}, q.Force, q.Tenant)[0]
	})
	serve(t, calls.BatchRemove, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchRemoveRequest) []calls.Expected[calls.Void] {
		return s.remove(ctx, v, q.Keys, q.Force, q.Tenant)
	})
	serve(t, calls.RemoveByRegex, func(s *Service, ctx context.Context, v calls.Version, q *calls.RemoveByRegexRequest) calls.Expected[int64] {
		n, err := s.master.RemoveByRegex(ctx, caller(model.ClientID{}, q.Tenant), q.Key, q.Force)
		return value(v, int64(n), err)
	})
	serveFailing(t, calls.RemoveAll, func(s *Service, ctx context.Context, _ calls.Version, q *calls.RemoveAllRequest) (int64, error) {
		n, err := s.master.RemoveAll(ctx, caller(model.ClientID{}, q.Tenant), q.Force)
		return int64(n), err
	})
	serve(t, calls.BatchReplicaClear, (*Service).clearReplicas)
}

func (s *Service) exist(ctx context.Context, v calls.Version, keys []string, tenant string) []calls.Expected[bool] {
	who := caller(model.ClientID{}, tenant)
	got := inPieces(keys, func(keys []string) ([]model.Result[bool], error) { return s.master.Exist(ctx, who, keys) }, resultOf[bool])
	out := make([]calls.Expected[bool], len(got))
	for i, r := range got {
		if errs.Is(r.Err, errs.ObjectNotFound) { // the empty key
			r.Err = nil
		}
		out[i] = value(v, r.Value, r.Err)
	}
	return out
}

func (s *Service) replicas(ctx context.Context, v calls.Version, keys []string, tenant string) []calls.Expected[calls.ReplicaList] {
	who := caller(model.ClientID{}, tenant)
	got := inPieces(keys, func(keys []string) ([]model.Result[model.Object], error) {
		return s.master.GetReplicas(ctx, who, keys, nil)
	}, resultOf[model.Object])
	out := make([]calls.Expected[calls.ReplicaList], len(got))
	// One backing array for the common case of one copy a key.
	all := make([]calls.Descriptor, 0, len(got))
	for i := range got {
		head := len(all)
		var err error
		if all, err = appendReadable(all, &got[i]); err != nil {
			out[i].Code = codeOf(v, err)
			continue
		}
		out[i].Value = calls.ReplicaList{Replicas: all[head:len(all):len(all)], LeaseTTL: uint64(got[i].Value.LeaseTTL / time.Millisecond)}
	}
	return out
}

// appendReadable appends what a client can read of an object. A master of an earlier release, to which a call was passed
// on, does not leave out the rest.
func appendReadable(dst []calls.Descriptor, r *model.Result[model.Object]) ([]calls.Descriptor, error) {
	if r.Err != nil {
		return dst, r.Err
	}
	head := len(dst)
	for i := range r.Value.Replicas {
		if c := &r.Value.Replicas[i]; c.Plain() {
			dst = append(dst, descriptor(c))
		}
	}
	if len(dst) == head {
		return dst, errs.ReplicaIsNotReady.Err()
	}
	return dst, nil
}

// descriptor describes a plain replica.
func descriptor(r *model.Replica) calls.Descriptor {
	return calls.Descriptor{
		ID: r.ID, Kind: calls.TypeMemory, Status: calls.ReplicaStatus(r.Status),
		Buffer: calls.Buffer{Size: r.Size, Address: r.Address, Protocol: r.Protocol, Endpoint: r.Endpoint},
	}
}

const (
	// regexPage is how many keys one call of the master answers for.
	regexPage = 1 << 12
	// mostByRegex bounds the keys of one answer.
	mostByRegex = 1 << 17
)

func (s *Service) replicasByRegex(ctx context.Context, v calls.Version, q *calls.GetReplicaListByRegexRequest) calls.Expected[[]calls.KeyReplicas] {
	var out []calls.KeyReplicas
	for after, more := "", true; more; {
		keys, got, err := s.master.GetReplicasByRegex(ctx, caller(model.ClientID{}, q.Tenant), q.Key, after, regexPage)
		if err == nil && len(out)+len(keys) > mostByRegex {
			err = errs.New(errs.InvalidParams, "upstream: replicas by regex", "more than %d keys match", mostByRegex)
		}
		if err != nil {
			return value(v, out, err)
		}
		for i, k := range keys {
			// A key that went meanwhile, or that a client cannot read, is left out, as any other that is not readable.
			if list, err := appendReadable(nil, &got[i]); err == nil {
				out = append(out, calls.KeyReplicas{Key: k, Replicas: list})
			}
		}
		if more = len(keys) == regexPage; more {
			after = keys[len(keys)-1]
		}
	}
	return value(v, out, nil)
}

func (s *Service) remove(ctx context.Context, v calls.Version, keys []string, force bool, tenant string) []calls.Expected[calls.Void] {
	who := caller(model.ClientID{}, tenant)
	return voids(v, inPieces(keys, func(keys []string) ([]error, error) { return s.master.Remove(ctx, who, keys, force) }, itself))
}

func (s *Service) clearReplicas(ctx context.Context, v calls.Version, q *calls.BatchReplicaClearRequest) calls.Expected[[]string] {
	var cleared []string
	for keys := q.Keys; len(keys) > 0; {
		piece := keys[:min(len(keys), most)]
		keys = keys[len(piece):]
		done, err := s.master.ClearReplicas(ctx, caller(q.Client, ""), piece, q.Client, q.Segment)
		if cleared = append(cleared, done...); err != nil {
			return value(v, cleared, err)
		}
	}
	return value(v, cleared, nil)
}
