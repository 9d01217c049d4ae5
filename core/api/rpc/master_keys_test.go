package rpc_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func (m *tableMaster) RemoveByRegex(_ context.Context, _ model.Caller, expr string, _ bool) (int, error) {
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

func (m *tableMaster) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	return m.RemoveByRegex(ctx, caller, "", force)
}

func (m *tableMaster) ListKeys(_ context.Context, _ model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
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

func (m *tableMaster) GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	keys, err := m.ListKeys(ctx, caller, expr, after, limit)
	if err != nil {
		return nil, nil, err
	}
	objects, err := m.GetReplicas(ctx, caller, keys, nil)
	for i := range objects {
		if objects[i].Value.Size%3 == 1 {
			objects[i] = model.Result[model.Object]{Err: errs.New(errs.ObjectNotFound, "get", "%q went away", keys[i])}
		}
	}
	return keys, objects, err
}

func (m *tableMaster) ClearReplicas(_ context.Context, _ model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var cleared []model.Key
	for _, k := range keys {
		e := m.objects[k]
		if e == nil || e.owner != owner || segment != "" && !slices.ContainsFunc(e.object.Replicas, func(r model.Replica) bool { return r.Segment == segment }) {
			continue
		}
		delete(m.objects, k)
		cleared = append(cleared, k)
	}
	return cleared, nil
}

func (m *tableMaster) Why(_ context.Context, caller model.Caller, key model.Key) (model.Story, error) {
	if err := model.ValidateKey(key); err != nil {
		return model.Story{}, err
	}
	tenant := caller.Tenant
	if tenant == "" {
		tenant = model.DefaultTenant
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.objects[key]
	if e == nil {
		return model.Story{Key: key, Tenant: tenant, Reason: "never heard of", Since: time.UnixMicro(1_700_000_000_000_001)}, nil
	}
	ttl := "none"
	if e.cfg.SoftPin.TTL != nil {
		ttl = e.cfg.SoftPin.TTL.String()
	}
	s := model.Story{
		Key: key, Tenant: tenant, Fate: model.FateWriting, Reason: fmt.Sprintf("%+v %s %s", e.cfg.SoftPin.Action, ttl, e.tenant), When: time.UnixMicro(-5),
		Size: e.object.Size, Checksum: e.object.Checksum, DataType: e.cfg.DataType, Group: e.group, Creator: e.owner,
		LeaseLeft: time.Second, ProbeLeft: time.Millisecond, SoftPinLeft: time.Microsecond, HardPin: e.cfg.HardPin,
		LastReader: caller.Client, LastRead: time.UnixMicro(77), Replicas: e.object.Replicas, Copying: e.copying != nil,
	}
	if e.cfg.Upsert && e.cfg.SameNode {
		s.Reason += " on " + e.cfg.HostID
	}
	return s, nil
}
