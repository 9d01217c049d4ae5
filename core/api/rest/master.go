package rest

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
)

// Master is what the admin port asks of the master. Safe for concurrent use.
type Master interface {
	// GetReplicas is the ordinary read path: it grants leases and counts.
	GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error)
	// PeekReplicas answers the same without a lease and without counting as an access.
	PeekReplicas(keys []model.Key) []model.Result[model.Object]
	// WalkKeys calls yield for every readable key until it returns false. It holds no
	// lock while yield runs and may miss keys that come or go meanwhile.
	WalkKeys(yield func(model.Key) bool)
	// Segments lists what is mounted.
	Segments(ctx context.Context) ([]model.SegmentInfo, error)
	// RemoveAll deletes everything of a tenant, or of model.AllTenants, that may be removed.
	RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error)
	// Remove deletes. Per key ObjectNotFound, ObjectHasLease (unless force),
	// ReplicaIsNotReady for an unfinished put, ObjectHasReplicationTask.
	Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error)
	// ListKeys returns up to limit keys greater than after in byte order, sorted, that
	// contain a match of expr ("" for all).
	ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error)
	// CreateTask has a copy or move carried out by the client that owns the source.
	// ObjectNotFound, SegmentNotFound, TaskPendingLimitExceeded, InvalidParams.
	CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error)
	// QueryTask answers with a task, or TaskNotFound.
	QueryTask(ctx context.Context, id model.TaskID) (model.Task, error)
	// Why tells what the master knows of a key. An unknown key is an answer, not an error.
	Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error)
	// CreateDrainJob begins to empty segments. InvalidParams, SegmentNotFound,
	// UnavailableInCurrentStatus for a segment that another job drains.
	CreateDrainJob(ctx context.Context, spec model.DrainSpec) (model.JobID, error)
	// DrainJob answers with a job, or JobNotFound.
	DrainJob(ctx context.Context, id model.JobID) (model.DrainJob, error)
	// CancelDrainJob gives a job up; its segments take objects again. JobNotFound, or
	// UnavailableInCurrentStatus while moves are in progress or when the job has ended.
	CancelDrainJob(ctx context.Context, id model.JobID) error
	// TenantQuotas lists the tenants, sorted by name. UnavailableInCurrentMode while the
	// master serves one tenant only; so do the calls below.
	TenantQuotas(ctx context.Context) ([]model.TenantQuota, error)
	// TenantQuota answers with one tenant, or TenantNotRegistered.
	TenantQuota(ctx context.Context, tenant model.Tenant) (model.TenantQuota, error)
	// SetTenantQuota registers a tenant or changes its quota, 1 to 2^63-1 bytes.
	SetTenantQuota(ctx context.Context, tenant model.Tenant, bytes uint64) (model.TenantQuota, error)
	// DeleteTenantQuota takes a tenant out. TenantNotRegistered, TenantNotEmpty.
	DeleteTenantQuota(ctx context.Context, tenant model.Tenant) error
	// KVEvents says what became of the events about objects that come and go.
	KVEvents() model.KVEventStats
	// Summary is the text of the master's part of /metrics/summary and of the periodic
	// log line, in upstream's layout; rates are over the time since the last log line.
	Summary() string
	// Metrics is the source of /metrics.
	Metrics() prometheus.Gatherer
}
