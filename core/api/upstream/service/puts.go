package service

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const opPut = "upstream: put start"

// started is what a client is told of a put that begins.
type started = calls.Expected[[]calls.Descriptor]

func addPuts(t table) {
	serve(t, calls.PutStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.PutStartRequest) started {
		return s.startOne(ctx, v, q, false)
	})
	serve(t, calls.UpsertStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.PutStartRequest) started {
		return s.startOne(ctx, v, q, true)
	})
	serve(t, calls.BatchPutStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchPutStartRequest) []started {
		return s.start(ctx, v, q, false)
	})
	serve(t, calls.BatchUpsertStart, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchPutStartRequest) []started {
		return s.start(ctx, v, q, true)
	})
	for _, f := range []*calls.Call[calls.PutEndRequest, calls.Expected[calls.Void]]{calls.PutEnd, calls.UpsertEnd} {
		serve(t, f, func(s *Service, ctx context.Context, v calls.Version, q *calls.PutEndRequest) calls.Expected[calls.Void] {
			return s.end(ctx, v, q.Client, []calls.ObjectMeta{q.ObjectMeta}, q.Type, q.Tenant)[0]
		})
	}
	serve(t, calls.BatchPutEnd, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchPutEndRequest) []calls.Expected[calls.Void] {
		return s.end(ctx, v, q.Client, q.Objects, q.Type, q.Tenant)
	})
	serve(t, calls.BatchUpsertEnd, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchUpsertEndRequest) []calls.Expected[calls.Void] {
		return s.end(ctx, v, q.Client, q.Objects, calls.TypeAll, q.Tenant)
	})
	for _, f := range []*calls.Call[calls.PutRevokeRequest, calls.Expected[calls.Void]]{calls.PutRevoke, calls.UpsertRevoke} {
		serve(t, f, func(s *Service, ctx context.Context, v calls.Version, q *calls.PutRevokeRequest) calls.Expected[calls.Void] {
			return s.revoke(ctx, v, q.Client, []string{q.Key}, q.Type, q.Tenant)[0]
		})
	}
	serve(t, calls.BatchPutRevoke, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchPutRevokeRequest) []calls.Expected[calls.Void] {
		return s.revoke(ctx, v, q.Client, q.Keys, q.Type, q.Tenant)
	})
	serve(t, calls.BatchUpsertRevoke, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchUpsertRevokeRequest) []calls.Expected[calls.Void] {
		return s.revoke(ctx, v, q.Client, q.Keys, calls.TypeAll, q.Tenant)
	})
	evict := func(v calls.Version, of calls.ReplicaType, tenant, key string) calls.Expected[calls.Void] {
		return void(v, errs.New(errs.ObjectNotFound, "upstream: evict disk replica", "%q of tenant %q has no replica of type %d here", key, tenant, of))
	}
	serve(t, calls.EvictDiskReplica, func(_ *Service, _ context.Context, v calls.Version, q *calls.EvictDiskReplicaRequest) calls.Expected[calls.Void] {
		return evict(v, q.Type, q.Tenant, q.Key)
	})
	serve(t, calls.BatchEvictDiskReplica, func(_ *Service, _ context.Context, v calls.Version, q *calls.BatchEvictDiskReplicaRequest) []calls.Expected[calls.Void] {
		out := make([]calls.Expected[calls.Void], len(q.Keys))
		for i, k := range q.Keys {
			out[i] = evict(v, q.Type, q.Tenant, k)
		}
		return out
	})
}

func (s *Service) startOne(ctx context.Context, v calls.Version, q *calls.PutStartRequest, upsert bool) started {
	return s.start(ctx, v, &calls.BatchPutStartRequest{
		Client: q.Client, Keys: []string{q.Key}, Sizes: []uint64{q.Size}, Config: q.Config, Tenant: q.Tenant,
	}, upsert)[0]
}

func (s *Service) start(ctx context.Context, v calls.Version, q *calls.BatchPutStartRequest, upsert bool) []started {
	out := make([]started, len(q.Keys))
	items, cfg, err := askedFor(q, upsert)
	if err != nil {
		for i := range out {
			out[i].Code = codeOf(v, err)
		}
		return out
	}
	who := caller(q.Client, q.Tenant)
	got := inPieces(items, func(items []model.PutItem) ([]model.Result[[]model.Replica], error) {
		return s.master.PutStart(ctx, who, items, cfg, nil)
	}, resultOf[[]model.Replica])
	all := make([]calls.Descriptor, 0, len(got))
	for i, r := range got {
		if r.Err == nil {
			r.Err = s.refuseOther(ctx, who, items[i].Key, r.Value)
		}
		if r.Err != nil {
			out[i].Code = codeOf(v, r.Err)
			continue
		}
		head := len(all)
		for j := range r.Value {
			all = append(all, descriptor(&r.Value[j]))
		}
		out[i].Value = all[head:len(all):len(all)]
	}
	return out
}

// refuseOther takes a put back for which a master of an earlier release, to which the call was passed on, chose a place that the
// client cannot write to. The client never learns of the place, so its memory is free at once.
func (s *Service) refuseOther(ctx context.Context, who model.Caller, key string, copies []model.Replica) error {
	plain := len(copies) > 0
	for i := range copies {
		plain = plain && copies[i].Plain()
	}
	if plain {
		return nil
	}
	if len(copies) > 0 {
		if _, err := s.master.PutRevoke(ctx, who, []model.RevokeItem{{Key: key, Put: copies[0].ID}}); err != nil {
			s.log.Warn("a put that an upstream client cannot write could not be taken back; the master gives it up by its timeout", "key", key, "error", err)
		}
	}
	return errs.New(errs.NoAvailableHandle, opPut, "the master has no memory for %q in one piece that upstream's clients reach", key)
}

// askedFor returns what a client wants to put and how. Its strings do not share the memory of the request.
func askedFor(q *calls.BatchPutStartRequest, upsert bool) ([]model.PutItem, model.ReplicateConfig, error) {
	c := &q.Config
	cfg := model.ReplicateConfig{
		Upsert: upsert, ReplicaNum: uint32(min(c.Replicas, math.MaxUint32)), PreferredSegments: c.PreferredSegments, SameNode: c.PreferSameNode,
		HostID: c.HostID, HardPin: c.HardPin, SoftPin: model.SoftPin{Action: model.SoftPinAction(c.SoftPin)},
	}
	if known := model.DataType(c.DataType); known <= model.DataGeneral {
		cfg.DataType = known
	}
	if c.PreferredSegment != "" {
		cfg.PreferredSegments = []string{c.PreferredSegment}
	}
	if c.SoftPinTTL.Present {
		ttl := millis(c.SoftPinTTL.Value)
		cfg.SoftPin.TTL = &ttl
	}
	switch groups := c.Groups.Value; {
	case len(q.Keys) != len(q.Sizes):
		return nil, cfg, errs.New(errs.InvalidParams, opPut, "%d keys have %d sizes", len(q.Keys), len(q.Sizes))
	case c.Groups.Present && len(groups) != len(q.Keys):
		return nil, cfg, errs.New(errs.InvalidParams, opPut, "%d keys have %d groups", len(q.Keys), len(groups))
	case c.NoFReplicas > 0 || c.DFSReplicas > 0:
		return nil, cfg, errs.New(errs.InvalidParams, opPut, "replicas on NoF segments or in a DFS are asked for; this master has memory and storage tiers of its nodes")
	}
	items := make([]model.PutItem, len(q.Keys))
	for i, k := range q.Keys {
		items[i] = model.PutItem{Key: strings.Clone(k), Size: q.Sizes[i]}
		if c.Groups.Present {
			items[i].Group = strings.Clone(c.Groups.Value[i])
		}
	}
	return items, cfg, nil
}

// millis is a duration of a client, the longest one where that is too long.
func millis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// end makes objects readable. The checksums that clients of V13 may send are left out: no document of upstream says how
// they are computed.
func (s *Service) end(ctx context.Context, v calls.Version, client model.ClientID, objects []calls.ObjectMeta, t calls.ReplicaType, tenant string) []calls.Expected[calls.Void] {
	if err := inMemory("upstream: put end", t); err != nil {
		return refused(v, len(objects), err)
	}
	items := make([]model.EndItem, len(objects))
	for i := range objects {
		items[i].Key = objects[i].Key
	}
	who := caller(client, tenant)
	return voids(v, inPieces(items, func(items []model.EndItem) ([]error, error) { return s.master.PutEnd(ctx, who, items, nil) }, itself))
}

// revoke gives up puts. A client revokes a put of which a transfer failed, which says nothing of when its last write ends, so the
// memory is held.
func (s *Service) revoke(ctx context.Context, v calls.Version, client model.ClientID, keys []string, t calls.ReplicaType, tenant string) []calls.Expected[calls.Void] {
	if err := inMemory("upstream: put revoke", t); err != nil {
		return refused(v, len(keys), err)
	}
	items := make([]model.RevokeItem, len(keys))
	for i, k := range keys {
		items[i] = model.RevokeItem{Key: k, Quarantined: true}
	}
	who := caller(client, tenant)
	return voids(v, inPieces(items, func(items []model.RevokeItem) ([]error, error) {
		out, err := s.master.PutRevoke(ctx, who, items)
		if errs.Is(err, errs.NotSupported) { // An earlier master gives the puts up by its timeout.
			return make([]error, len(items)), nil
		}
		return out, err
	}, itself))
}

// inMemory refuses the types of replicas that no client was given.
func inMemory(op string, t calls.ReplicaType) error {
	if t == calls.TypeMemory || t == calls.TypeAll {
		return nil
	}
	return errs.New(errs.InvalidParams, op, "replicas of type %d are meant; this master gives clients memory only", t)
}

func refused(v calls.Version, n int, err error) []calls.Expected[calls.Void] {
	out := make([]calls.Expected[calls.Void], n)
	for i := range out {
		out[i] = void(v, err)
	}
	return out
}
