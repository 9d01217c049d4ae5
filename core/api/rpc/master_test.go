package rpc_test

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// tableMaster is a master in one map: enough behaviour that an answer which got lost or
// swapped on the way shows.
type tableMaster struct {
	mu       sync.Mutex
	objects  map[model.Key]*entry
	segments []model.SegmentInfo
	clients  map[model.ClientID]int
	nextID   uint64

	version string
	ready   error
	// before runs at the start of Exist and GetReplicas, outside of the lock.
	before func(ctx context.Context, keys []model.Key)
	// batches collects the sizes of the batches that arrived.
	batches []int
}

type entry struct {
	owner    model.ClientID
	object   model.Object
	complete bool
}

var _ store.Master = (*tableMaster)(nil)

func newTableMaster() *tableMaster {
	return &tableMaster{objects: map[model.Key]*entry{}, clients: map[model.ClientID]int{}, version: "1.2.3"}
}

func (m *tableMaster) Ready(context.Context) (string, error) { return m.version, m.ready }

func (m *tableMaster) MountSegment(_ context.Context, c model.ClientID, s model.Segment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Base == 0 || s.Size == 0 {
		return errs.New(errs.InvalidParams, "mount", "base and size must not be 0")
	}
	m.clients[c]++
	m.segments = append(m.segments, model.SegmentInfo{Segment: s, Client: c, Status: model.SegmentOK, Used: s.Size / 3})
	return nil
}

func (m *tableMaster) RemountSegments(ctx context.Context, c model.ClientID, segs []model.Segment) error {
	for _, s := range segs {
		if err := m.MountSegment(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

func (m *tableMaster) UnmountSegment(_ context.Context, c model.ClientID, id model.SegmentID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.segments {
		if s.ID != id {
			continue
		}
		if s.Client != c {
			return errs.New(errs.IllegalClient, "unmount", "segment %s belongs to %s", id, s.Client)
		}
		m.segments = slices.Delete(m.segments, i, i+1)
		return nil
	}
	return nil
}

func (m *tableMaster) Ping(_ context.Context, c model.ClientID) (model.PingReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clients[c] == 0 {
		return model.PingReply{Status: model.ClientNeedRemount, ViewVersion: 7}, nil
	}
	return model.PingReply{Status: model.ClientOK, ViewVersion: 7}, nil
}

func (m *tableMaster) Segments(context.Context) ([]model.SegmentInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.segments), nil
}

func (m *tableMaster) note(ctx context.Context, keys []model.Key) {
	if m.before != nil {
		m.before(ctx, keys)
	}
	m.mu.Lock()
	m.batches = append(m.batches, len(keys))
	m.mu.Unlock()
}

func (m *tableMaster) Exist(ctx context.Context, keys []model.Key) ([]model.Result[bool], error) {
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

func (m *tableMaster) GetReplicas(ctx context.Context, keys []model.Key) ([]model.Result[model.Object], error) {
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
			out[i].Value = e.object
		}
	}
	return out, nil
}

func (m *tableMaster) PutStart(_ context.Context, c model.ClientID, items []model.PutItem, cfg model.ReplicateConfig) ([]model.Result[[]model.Replica], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cfg.ReplicaNum == 0 || cfg.ReplicaNum > 8 {
		return nil, errs.New(errs.InvalidParams, "put start", "%d replicas", cfg.ReplicaNum)
	}
	out := make([]model.Result[[]model.Replica], len(items))
	for i, it := range items {
		if _, ok := m.objects[it.Key]; ok {
			out[i].Err = errs.New(errs.ObjectAlreadyExists, "put start", "%q is there", it.Key)
			continue
		}
		e := &entry{owner: c, object: model.Object{Size: it.Size, LeaseTTL: 5 * time.Second}}
		for r := range cfg.ReplicaNum {
			m.nextID++
			name := append(cfg.PreferredSegments, "10.0.0.1:12345")[0]
			e.object.Replicas = append(e.object.Replicas, model.Replica{
				ID: m.nextID, SegmentID: model.UUID{Hi: 1, Lo: uint64(r)}, Segment: name, Endpoint: name, Protocol: "tcp",
				Address: 0x7f0000000000 + m.nextID<<20, Size: it.Size, Status: model.ReplicaComplete,
			})
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

func (m *tableMaster) PutEnd(_ context.Context, c model.ClientID, items []model.EndItem) ([]error, error) {
	out := make([]error, len(items))
	for i, it := range items {
		out[i] = m.each([]model.Key{it.Key}, func(_ model.Key, e *entry) error {
			switch {
			case e.owner != c:
				return errs.IllegalClient.Err()
			case it.Put != 0 && it.Put != e.object.Replicas[0].ID:
				return errs.InvalidWrite.Err()
			}
			e.complete, e.object.Checksum = true, it.Checksum
			return nil
		})[0]
	}
	return out, nil
}

func (m *tableMaster) PutRevoke(_ context.Context, c model.ClientID, items []model.RevokeItem) ([]error, error) {
	out := make([]error, len(items))
	for i, it := range items {
		out[i] = m.each([]model.Key{it.Key}, func(k model.Key, e *entry) error {
			switch {
			case e.owner != c || e.complete:
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

func (m *tableMaster) Remove(_ context.Context, keys []model.Key, force bool) ([]error, error) {
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

func (m *tableMaster) RemoveByRegex(_ context.Context, expr string, _ bool) (int, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return 0, errs.Wrap(errs.InvalidParams, "remove by regex", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for k, e := range m.objects {
		if e.complete && re.MatchString(k) {
			delete(m.objects, k)
			n++
		}
	}
	return n, nil
}

func (m *tableMaster) RemoveAll(ctx context.Context, force bool) (int, error) {
	return m.RemoveByRegex(ctx, "", force)
}

func (m *tableMaster) ListKeys(_ context.Context, expr string, after model.Key, limit int) ([]model.Key, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "list keys", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []model.Key
	for k, e := range m.objects {
		if e.complete && k > after && re.MatchString(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys[:min(limit, len(keys))], nil
}
