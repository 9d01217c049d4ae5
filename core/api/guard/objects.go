package guard

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
)

var (
	cExist      = call("Exist")
	cGet        = call("GetReplicas")
	cGetByRegex = call("GetReplicasByRegex")
	cPutStart   = call("PutStart")
	cPutEnd     = call("PutEnd")
	cPutRevoke  = call("PutRevoke")
	cRemove     = call("Remove")
	cByRegex    = call("RemoveByRegex")
	cRemoveAll  = call("RemoveAll")
	cListKeys   = call("ListKeys")
	cClear      = call("ClearReplicas")
	cWhy        = call("Why")
	cCopyStart  = call("CopyStart")
	cCopyEnd    = call("CopyEnd")
	cCopyRevoke = call("CopyRevoke")
)

// Exist implements store.Master.
func (m *Master) Exist(ctx context.Context, who model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	who, err := m.user(ctx, cExist, who)
	if err != nil {
		return nil, err
	}
	return m.Master.Exist(ctx, who, keys)
}

// GetReplicas implements store.Master.
func (m *Master) GetReplicas(ctx context.Context, who model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	who, err := m.user(ctx, cGet, who)
	if err != nil {
		return nil, err
	}
	return m.Master.GetReplicas(ctx, who, keys, into)
}

// GetReplicasByRegex implements store.Master.
func (m *Master) GetReplicasByRegex(ctx context.Context, who model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	who, err := m.user(ctx, cGetByRegex, who)
	if err != nil {
		return nil, nil, err
	}
	return m.Master.GetReplicasByRegex(ctx, who, expr, after, limit)
}

// PutStart implements store.Master.
func (m *Master) PutStart(ctx context.Context, who model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	who, err := m.writer(ctx, cPutStart, who)
	if err != nil {
		return nil, err
	}
	return m.Master.PutStart(ctx, who, items, cfg, into)
}

// PutEnd implements store.Master.
func (m *Master) PutEnd(ctx context.Context, who model.Caller, items []model.EndItem, into []error) ([]error, error) {
	who, err := m.writer(ctx, cPutEnd, who)
	if err != nil {
		return nil, err
	}
	out, err := m.Master.PutEnd(ctx, who, items, into)
	m.count(ctx, cPutEnd, len(items), out, err)
	return out, err
}

// PutRevoke implements store.Master.
func (m *Master) PutRevoke(ctx context.Context, who model.Caller, items []model.RevokeItem) ([]error, error) {
	who, err := m.writer(ctx, cPutRevoke, who)
	if err != nil {
		return nil, err
	}
	out, err := m.Master.PutRevoke(ctx, who, items)
	m.count(ctx, cPutRevoke, len(items), out, err)
	return out, err
}

// count counts the objects of a batch for the audit.
func (m *Master) count(ctx context.Context, c *access.Call, items int, each []error, err error) {
	failed := 0
	for _, e := range each {
		if e != nil {
			failed++
		}
	}
	if err != nil {
		failed = items
	}
	m.o.Control.Count(ctx, c, items-failed, failed)
}

// Remove implements store.Master.
func (m *Master) Remove(ctx context.Context, who model.Caller, keys []model.Key, force bool) ([]error, error) {
	who, err := m.user(ctx, cRemove, who)
	if err != nil {
		return nil, err
	}
	out, err := m.Master.Remove(ctx, who, keys, force)
	m.count(ctx, cRemove, len(keys), out, err)
	return out, err
}

// RemoveByRegex implements store.Master.
func (m *Master) RemoveByRegex(ctx context.Context, who model.Caller, expr string, force bool) (int, error) {
	who, err := m.user(ctx, cByRegex, who)
	if err != nil {
		return 0, err
	}
	n, err := m.Master.RemoveByRegex(ctx, who, expr, force)
	m.o.Control.Done(ctx, cByRegex, fmt.Sprintf("keys of tenant %q that match %.200q, force %t: %d removed", who.Tenant, expr, force, n), err)
	return n, err
}

// RemoveAll implements store.Master.
func (m *Master) RemoveAll(ctx context.Context, who model.Caller, force bool) (int, error) {
	who, err := m.user(ctx, cRemoveAll, who)
	if err != nil {
		return 0, err
	}
	n, err := m.Master.RemoveAll(ctx, who, force)
	m.o.Control.Done(ctx, cRemoveAll, fmt.Sprintf("all keys of tenant %q, force %t: %d removed", who.Tenant, force, n), err)
	return n, err
}

// ListKeys implements store.Master.
func (m *Master) ListKeys(ctx context.Context, who model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	who, err := m.user(ctx, cListKeys, who)
	if err != nil {
		return nil, err
	}
	return m.Master.ListKeys(ctx, who, expr, after, limit)
}

// ClearReplicas implements store.Master.
func (m *Master) ClearReplicas(ctx context.Context, who model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	who, err := m.user(ctx, cClear, who)
	if err == nil {
		owner, err = m.own(ctx, cClear, owner)
	}
	if err != nil {
		return nil, err
	}
	out, err := m.Master.ClearReplicas(ctx, who, keys, owner, segment)
	m.o.Control.Count(ctx, cClear, len(out), len(keys)-len(out))
	return out, err
}

// Why implements store.Master.
func (m *Master) Why(ctx context.Context, who model.Caller, key model.Key) (model.Story, error) {
	who, err := m.user(ctx, cWhy, who)
	if err != nil {
		return model.Story{}, err
	}
	return m.Master.Why(ctx, who, key)
}

// CopyStart implements store.Master.
func (m *Master) CopyStart(ctx context.Context, who model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	who, err := m.copier(ctx, cCopyStart, who, key)
	if err != nil {
		return model.CopyPlan{}, err
	}
	plan, err := m.Master.CopyStart(ctx, who, kind, key, source, targets)
	m.o.Control.Done(ctx, cCopyStart, "", err)
	return plan, err
}

// CopyEnd implements store.Master.
func (m *Master) CopyEnd(ctx context.Context, who model.Caller, kind model.CopyKind, key model.Key) error {
	who, err := m.copier(ctx, cCopyEnd, who, key)
	if err != nil {
		return err
	}
	err = m.Master.CopyEnd(ctx, who, kind, key)
	m.o.Control.Done(ctx, cCopyEnd, "", err)
	return err
}

// CopyRevoke implements store.Master.
func (m *Master) CopyRevoke(ctx context.Context, who model.Caller, kind model.CopyKind, key model.Key) error {
	who, err := m.copier(ctx, cCopyRevoke, who, key)
	if err != nil {
		return err
	}
	err = m.Master.CopyRevoke(ctx, who, kind, key)
	m.o.Control.Done(ctx, cCopyRevoke, "", err)
	return err
}

// copier returns the caller of a call on a copy: of an object of its own tenant, or of one that a task has it
// copy.
func (m *Master) copier(ctx context.Context, c *access.Call, who model.Caller, key model.Key) (model.Caller, error) {
	var err error
	if who.Client, err = m.own(ctx, c, who.Client); err != nil {
		return who, err
	}
	if t := access.TenantOf(ctx); t != "" && t != who.Tenant && who.Tenant != "" && m.assigned.has(object{who.Client, who.Tenant, key}) {
		return who, nil
	}
	err = m.tenant(ctx, c, &who)
	return who, err
}
