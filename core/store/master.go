package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
)

// Master is the master as a client and a node see it: over gRPC (core/api/rpc), or the
// service itself within one process (core/master).
//
// Every call on objects takes a batch and answers per key, in the order of the keys; the
// second result is for the call as a whole (codes RPCFail, RPCTimeout, InvalidVersion,
// InvalidParams) and then there are no per-key answers. Safe for concurrent use.
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
	// UnmountSegment takes a segment out; its replicas are unreadable at once. An unknown
	// segment is a success; IllegalClient when it belongs to another client.
	UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID) error
	// Ping keeps a client alive.
	Ping(ctx context.Context, client model.ClientID) (model.PingReply, error)
	// Segments lists what is mounted.
	Segments(ctx context.Context) ([]model.SegmentInfo, error)

	// Exist reports which keys are readable and grants those a read lease.
	Exist(ctx context.Context, keys []model.Key) ([]model.Result[bool], error)
	// GetReplicas says where objects lie and grants a read lease. Per key ObjectNotFound,
	// or ReplicaIsNotReady when nothing readable is left or there yet.
	GetReplicas(ctx context.Context, keys []model.Key) ([]model.Result[model.Object], error)
	// PutStart allocates. Per key ObjectAlreadyExists, NoAvailableHandle or InvalidParams.
	PutStart(ctx context.Context, client model.ClientID, items []model.PutItem, cfg model.ReplicateConfig) ([]model.Result[[]model.Replica], error)
	// PutEnd makes objects readable. Per key ObjectNotFound, IllegalClient, InvalidWrite
	// when another put of the client took this one's place; ending twice is a success.
	PutEnd(ctx context.Context, client model.ClientID, items []model.EndItem) ([]error, error)
	// PutRevoke gives up unfinished puts, whose memory is used again at once: the caller
	// writes no more. Errors as PutEnd, and InvalidWrite for what is readable.
	PutRevoke(ctx context.Context, client model.ClientID, items []model.RevokeItem) ([]error, error)
	// Remove deletes. Per key ObjectNotFound, ObjectHasLease (unless force),
	// ReplicaIsNotReady for an unfinished put (also with force).
	Remove(ctx context.Context, keys []model.Key, force bool) ([]error, error)
	// RemoveByRegex deletes what matches (RE2 syntax, unanchored) and may be removed, and
	// returns how many. InvalidParams for a malformed expression.
	RemoveByRegex(ctx context.Context, expr string, force bool) (int, error)
	// RemoveAll deletes everything that may be removed and returns how many.
	RemoveAll(ctx context.Context, force bool) (int, error)
	// ListKeys returns up to limit keys greater than after in byte order, sorted, that
	// contain a match of expr ("" for all).
	ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error)
}
