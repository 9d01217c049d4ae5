package rpc_test

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (m *tableMaster) note(ctx context.Context, keys []model.Key) {
	if m.before != nil {
		m.before(ctx, keys)
	}
	m.mu.Lock()
	m.batches = append(m.batches, len(keys))
	m.mu.Unlock()
}

func (m *tableMaster) Exist(ctx context.Context, _ model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	m.note(ctx, keys)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]model.Result[bool], len(keys))
	for i, k := range keys {
		e, ok := m.objects[k]
		out[i].Value = ok && e.complete
		if err := model.ValidateKey(k); err != nil {
			out[i] = model.Result[bool]{Err: err}
		}
	}
	return out, nil
}

func (m *tableMaster) GetReplicas(ctx context.Context, _ model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	m.note(ctx, keys)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		switch e, ok := m.objects[k]; {
		case !ok:
			out[i].Err = errs.New(errs.ObjectNotFound, "get replicas", "no object %q", k)
		case !e.complete:
			out[i].Err = errs.ReplicaIsNotReady.Err()
		default:
			if out[i].Value = e.object; into == nil || !into.WithGrains {
				out[i].Value.Grains = nil
			}
		}
	}
	return out, nil
}

// replica makes a copy that has a part on each of the names, the first of one byte while
// there are bytes.
func (m *tableMaster) replica(names []string, size uint64) model.Replica {
	m.nextID++
	part := func(i int, size uint64) model.Part {
		return model.Part{
			SegmentID: model.UUID{Hi: 1, Lo: uint64(i)}, Segment: names[i], Endpoint: names[i], Protocol: "tcp",
			Address: 0x7f0000000000 + m.nextID<<20, Size: size,
		}
	}
	r := model.Replica{ID: m.nextID, Status: model.ReplicaComplete}
	if size < uint64(len(names)) {
		r.Part = part(0, size)
		return r
	}
	r.Part = part(0, size-uint64(len(names)-1))
	for i := range names[1:] {
		r.More = append(r.More, part(i+1, 1))
	}
	return r
}

func (m *tableMaster) PutStart(_ context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cfg.ReplicaNum == 0 || cfg.ReplicaNum > 8 {
		return nil, errs.New(errs.InvalidParams, "put start", "%d replicas", cfg.ReplicaNum)
	}
	out := make([]model.Result[[]model.Replica], len(items))
	for i, it := range items {
		if _, ok := m.objects[it.Key]; ok && !cfg.Upsert {
			out[i].Err = errs.New(errs.ObjectAlreadyExists, "put start", "%q is there", it.Key)
			continue
		}
		if it.Size == 0 {
			out[i].Err = errs.New(errs.InvalidParams, "put start", "%q has no bytes", it.Key)
			continue
		}
		e := &entry{owner: caller.Client, tenant: caller.Tenant, cfg: cfg, group: it.Group, object: model.Object{Size: it.Size, LeaseTTL: 5 * time.Second}}
		for range cfg.ReplicaNum {
			e.object.Replicas = append(e.object.Replicas, m.replica(append(cfg.PreferredSegments, "10.0.0.1:12345"), it.Size))
		}
		m.objects[it.Key] = e
		out[i].Value = e.object.Replicas
	}
	return out, nil
}

// each applies f to every key's entry, which is nil for an unknown key.
func (m *tableMaster) each(keys []model.Key, f func(model.Key, *entry) error) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]error, len(keys))
	for i, k := range keys {
		e := m.objects[k]
		if e == nil {
			out[i] = errs.New(errs.ObjectNotFound, "master", "no object %q", k)
			continue
		}
		out[i] = f(k, e)
	}
	return out
}

func (m *tableMaster) PutEnd(_ context.Context, caller model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	out := make([]error, len(items))
	for i, it := range items {
		out[i] = m.each([]model.Key{it.Key}, func(_ model.Key, e *entry) error {
			switch {
			case e.owner != caller.Client:
				return errs.IllegalClient.Err()
			case it.Put != 0 && it.Put != e.object.Replicas[0].ID:
				return errs.InvalidWrite.Err()
			}
			e.complete, e.object.Checksum, e.object.Grains = true, it.Checksum, append([]uint32(nil), it.Grains...)
			return nil
		})[0]
	}
	return out, nil
}

func (m *tableMaster) PutRevoke(_ context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	out := make([]error, len(items))
	for i, it := range items {
		out[i] = m.each([]model.Key{it.Key}, func(k model.Key, e *entry) error {
			switch {
			case e.owner != caller.Client || e.complete:
				return errs.IllegalClient.Err()
			case it.Put != 0 && it.Put != e.object.Replicas[0].ID:
				return errs.InvalidWrite.Err()
			}
			delete(m.objects, k)
			return nil
		})[0]
	}
	return out, nil
}

func (m *tableMaster) Remove(_ context.Context, _ model.Caller, keys []model.Key, force bool) ([]error, error) {
	return m.each(keys, func(k model.Key, e *entry) error {
		if !e.complete {
			return errs.ReplicaIsNotReady.Err()
		}
		if !force && e.object.Size%2 == 1 {
			return errs.ObjectHasLease.Err()
		}
		delete(m.objects, k)
		return nil
	}), nil
}
