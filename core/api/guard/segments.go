package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

var (
	cMount    = call("MountSegment")
	cRemount  = call("RemountSegments")
	cUnmount  = call("UnmountSegment")
	cAttach   = call("Attach")
	cReport   = call("Report")
	cPull     = call("Pull")
	cPing     = call("Ping")
	cComplete = call("CompleteTask")
	cFetch    = call("FetchTasks")
	cCreate   = call("CreateTask")
)

// MountSegment implements store.Master.
func (m *Master) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	client, err := m.own(ctx, cMount, client)
	if err != nil {
		return err
	}
	err = m.Master.MountSegment(ctx, client, seg)
	m.o.Control.Done(ctx, cMount, fmt.Sprintf("segment %s (%s) of client %s, %d bytes", seg.ID, seg.Name, client, seg.Size), err)
	return err
}

// RemountSegments implements store.Master.
func (m *Master) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	client, err := m.own(ctx, cRemount, client)
	if p := access.Of(ctx); err == nil && len(segs) > 0 && p != nil && p.Identity.Role == security.RoleOperator {
		err = m.o.Control.Refuse(ctx, cRemount, errs.WithHint(errs.New(errs.IllegalClient, "access", "%s has no memory to mount", p.Identity),
			"use a certificate with a role among store, client"))
	}
	if err != nil {
		return err
	}
	err = m.Master.RemountSegments(ctx, client, segs)
	for i := range segs {
		m.o.Control.Done(ctx, cMount, fmt.Sprintf("segment %s (%s) of client %s, %d bytes", segs[i].ID, segs[i].Name, client, segs[i].Size), err)
	}
	return err
}

// UnmountSegment implements store.Master.
func (m *Master) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	client, err := m.own(ctx, cUnmount, client)
	if err != nil {
		return err
	}
	err = m.Master.UnmountSegment(ctx, client, id, grace)
	m.o.Control.Done(ctx, cUnmount, fmt.Sprintf("segment %s of client %s, grace %s", id, client, grace), err)
	return err
}

// Attach implements store.Master.
func (m *Master) Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error) {
	client, err := m.own(ctx, cAttach, client)
	if err != nil {
		return model.Attached{}, err
	}
	out, err := m.Master.Attach(ctx, client, ledgers)
	for i := range ledgers {
		s := &ledgers[i].Segment
		m.o.Control.Done(ctx, cMount, fmt.Sprintf("segment %s (%s) of client %s, %d bytes, with its ledger", s.ID, s.Name, client, s.Size), err)
	}
	return out, err
}

// Report implements store.Master.
func (m *Master) Report(ctx context.Context, client model.ClientID, r model.LedgerReport) error {
	client, err := m.own(ctx, cReport, client)
	if err != nil {
		return err
	}
	return m.Master.Report(ctx, client, r)
}

// Pull implements store.Master.
func (m *Master) Pull(ctx context.Context, client model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	client, err := m.own(ctx, cPull, client)
	if err != nil {
		return model.Pulled{}, err
	}
	return m.Master.Pull(ctx, client, round, acks)
}

// Ping implements store.Master.
func (m *Master) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	client, err := m.own(ctx, cPing, client)
	if err != nil {
		return model.PingReply{}, err
	}
	return m.Master.Ping(ctx, client, report)
}

// CreateTask implements store.Master.
func (m *Master) CreateTask(ctx context.Context, who model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	who, err := m.user(ctx, cCreate, who)
	if err != nil {
		return model.TaskID{}, err
	}
	if spec.Tenant != "" {
		if spec.Tenant, err = m.o.Control.Tenant(ctx, cCreate, spec.Tenant); err != nil {
			return model.TaskID{}, err
		}
	}
	id, err := m.Master.CreateTask(ctx, who, spec)
	m.o.Control.Done(ctx, cCreate, fmt.Sprintf("%s of an object of tenant %q from %q to %q", spec.Kind, who.Tenant, spec.Source, spec.Targets), err)
	return id, err
}

// QueryTask implements store.Master. A task of another tenant is not there.
func (m *Master) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	t, err := m.Master.QueryTask(ctx, id)
	if err != nil {
		return t, err
	}
	return access.OwnTask(ctx, t)
}

// FetchTasks implements store.Master.
func (m *Master) FetchTasks(ctx context.Context, who model.Caller, limit int) ([]model.Assignment, error) {
	client, err := m.own(ctx, cFetch, who.Client)
	if err != nil {
		return nil, err
	}
	who.Client = client
	list, err := m.Master.FetchTasks(ctx, who, limit)
	if err == nil && access.TenantOf(ctx) != "" {
		m.assigned.add(client, list)
	}
	return list, err
}

// CompleteTask implements store.Master. The task may be of any tenant: the memory of its client is the pool's.
func (m *Master) CompleteTask(ctx context.Context, who model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	client, err := m.own(ctx, cComplete, who.Client)
	if err != nil {
		return err
	}
	who.Client = client
	err = m.Master.CompleteTask(ctx, who, id, status, message)
	m.assigned.done(id)
	m.o.Control.Done(ctx, cComplete, "", err)
	return err
}
