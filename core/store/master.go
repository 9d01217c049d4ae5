package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// ErrNoLeader is in the chain of the error of a call while no master leads the cluster, or while it is not
// known which one does: UnavailableInCurrentStatus, or the code of the directory that does not answer.
var ErrNoLeader = errors.New("no master is known to lead")

// ErrNotSent is in the chain of the error of a call that no master has seen, because none could be reached: RPCFail.
var ErrNotSent = errors.New("the call was not sent")

// Mover is a Master that may be another process from one call to the next.
type Mover interface {
	// OnMove has f called after each change, nil for nothing. f does not block.
	OnMove(f func())
}

// Celled is a Master that stands for the masters of several cells (core/cells).
type Celled interface {
	// Masters returns those of the cells, in order. It waits until their number is known, or until ctx ends.
	Masters(ctx context.Context) ([]Master, error)
}

// Follower is a master that follows the one that leads, as a node sees it: Attach and Report are those of Master, except
// that nothing is mounted, that no ledger is fenced, and that reports of further batches follow.
type Follower interface {
	Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error)
	Report(ctx context.Context, client model.ClientID, report model.LedgerReport) error
	// Close ends the connection.
	Close() error
}

// Master is the master as a client and a node see it: over gRPC (core/api/rpc), or the
// service itself within one process (core/master).
//
// Every call on objects takes a batch and answers per key, in the order of the keys; the
// second result is for the call as a whole (codes RPCFail, RPCTimeout, InvalidVersion,
// InvalidParams) and then there are no per-key answers. Safe for concurrent use.
//
// The calls that a client makes all day take memory of the caller for the answer. It may be nil, and
// an implementation may leave it unused; after an error its content is undefined. No implementation
// uses ctx after the call returned.
type Master interface {
	// Ready answers with the master's version, or an error while it does not serve.
	Ready(ctx context.Context) (version string, err error)

	// MountSegment adds a segment and makes the client known. Mounting the same segment
	// again is a success. InvalidParams for base or size 0, or an ID in use with other
	// values.
	MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error
	// RemountSegments is MountSegment for all segments of a client that the master has
	// forgotten: all of them or none.
	RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error
	// Attach is RemountSegments for segments that have a ledger (core/ledger), some or all of a client's. The
	// client then fences each ledger with the epoch that the master names, and calls Report for those that do
	// not resume. NotSupported from a master that keeps no ledgers, which RemountSegments mounts at.
	Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error)
	// Report passes one piece of what a ledger has; pieces come one after the other. The segment is
	// mounted when the last piece is answered. InvalidParams when the report does not belong to an Attach;
	// ChecksumMismatch when the ledger is damaged: the client attaches again, with an empty one.
	Report(ctx context.Context, client model.ClientID, report model.LedgerReport) error
	// Pull waits up to a second for records for the ledgers of a client. round is that of the answer before,
	// 0 for none, and acks says how far each ledger has come. UnavailableInCurrentStatus when one of them is
	// not attached: the client attaches all again.
	Pull(ctx context.Context, client model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error)
	// Follow says that another master, which does not lead, takes Attach and Report at an address for the next
	// seconds, so that the nodes tell it what their ledgers have; it can take over at once then.
	Follow(ctx context.Context, address string) error
	// UnmountSegment takes a segment out. With a grace it takes no more objects and stays
	// readable until the grace is over; without, its replicas are unreadable at once. An
	// unknown segment is a success; IllegalClient when it belongs to another client.
	UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error
	// Ping keeps a client alive and tells what it saw of other nodes.
	Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error)
	// Segments lists what is mounted.
	Segments(ctx context.Context) ([]model.SegmentInfo, error)
	// QueryHosts returns the hosts of the segments of those clients that are known.
	QueryHosts(ctx context.Context, clients []model.ClientID) (map[model.ClientID][]string, error)

	// Exist reports which keys are readable and protects those for a while.
	Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error)
	// GetReplicas says where objects lie and grants a read lease. Per key ObjectNotFound,
	// or ReplicaIsNotReady when nothing readable is left or there yet. into.WithGrains asks for
	// the checksums of grains, which a master of an earlier release does not know.
	GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error)
	// GetReplicasByRegex is GetReplicas for the keys that ListKeys returns.
	GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error)
	// PutStart allocates. Per key ObjectAlreadyExists, NoAvailableHandle, InvalidParams,
	// TenantQuotaExceeded, TenantNotRegistered; with cfg.Upsert ObjectReplicaBusy and
	// ObjectHasReplicationTask, and no ObjectAlreadyExists.
	PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error)
	// PutEnd makes objects readable. Per key ObjectNotFound, IllegalClient, InvalidWrite
	// when another put of the client took this one's place, InvalidParams for checksums of grains
	// that do not fit; ending twice is a success.
	PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, into []error) ([]error, error)
	// PutRevoke gives up unfinished puts, whose memory is used again at once: the caller
	// writes no more. Where it cannot promise that, Quarantined keeps the memory out of use
	// until the master's put release timeout; NotSupported from a master that cannot, which
	// goes on as without the call. Errors as PutEnd, and InvalidWrite for what is readable.
	PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error)
	// Remove deletes. Per key ObjectNotFound, ObjectHasLease (unless force),
	// ReplicaIsNotReady for an unfinished put (also with force), ObjectHasReplicationTask.
	Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error)
	// RemoveByRegex deletes what matches (RE2 syntax, unanchored) and may be removed, and
	// returns how many. It walks through all keys in pieces, for which no other call waits: what is put meanwhile may be
	// removed or stay. InvalidParams for a malformed expression.
	RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error)
	// RemoveAll deletes everything of a tenant, or of model.AllTenants, that may be
	// removed and returns how many.
	RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error)
	// ListKeys returns up to limit keys greater than after in byte order, sorted, that
	// contain a match of expr ("" for all), each once. A key that is readable all the while is there; one that comes, goes
	// or is put anew meanwhile may be.
	ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error)
	// ClearReplicas takes away the copies on a segment, or with "" the whole object, of
	// those keys that owner put and no client is reading, and returns those keys.
	ClearReplicas(ctx context.Context, caller model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error)
	// Why tells what the master knows of a key. An unknown key is an answer, not an error.
	Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error)

	// CopyStart begins a copy or move of one object and allocates its targets; the source
	// stays in place until CopyEnd or CopyRevoke by the same client. ObjectNotFound,
	// ReplicaNotFound (no copy on the source), SegmentNotFound, UnavailableInCurrentStatus,
	// NoAvailableHandle, ObjectHasReplicationTask, InvalidParams.
	CopyStart(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error)
	// CopyEnd makes the targets readable; a move takes the source away.
	// ObjectNoReplicationTask, IllegalClient, ReplicaIsGone, InvalidParams (other kind).
	CopyEnd(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error
	// CopyRevoke gives the targets up. Errors as CopyEnd.
	CopyRevoke(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error
	// CreateTask has a copy or move carried out by the client that owns the source.
	// ObjectNotFound, SegmentNotFound, TaskPendingLimitExceeded, InvalidParams.
	CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error)
	// QueryTask answers with a task, or TaskNotFound.
	QueryTask(ctx context.Context, id model.TaskID) (model.Task, error)
	// FetchTasks gives the caller up to limit of the tasks that wait for it.
	FetchTasks(ctx context.Context, caller model.Caller, limit int) ([]model.Assignment, error)
	// CompleteTask reports a fetched task as TaskSuccess or TaskFailed. TaskNotFound,
	// IllegalClient.
	CompleteTask(ctx context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error
}
