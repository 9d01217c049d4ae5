// Package store has the interfaces of the pool's clients: Pool, which programs use, and Master, which
// a client uses.
//
// Package client implements a Pool with transports in this process, and package local a Pool that
// uses the client of another process of the host. Package node contributes memory. A client and a
// node of one process share a session (package session).
package store

import (
	"context"
	"errors"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ErrClosed is the error of calls of a client that is closed.
var ErrClosed = errors.New("the store client is closed")

// Pool is the objects of a pool. Calls adds calls for a single key. Safe for concurrent use.
//
// Errors carry an errs.Code. Batch methods return a result per key, in the order of the keys; if the
// call as a whole fails, every key has its error.
type Pool interface {
	// Ready returns the master's version, or why it cannot be reached.
	Ready(ctx context.Context) (string, error)
	// Hostname is the name of the segments of the process that moves the bytes, "host:port".
	Hostname() string
	// Close refuses new calls, waits for those in flight until the context ends, and ends all sessions
	// and registrations. Repeatable.
	Close(ctx context.Context) error

	// PutItems stores objects. The put of a key that exists succeeds and writes nothing. With
	// cfg.Upsert it replaces the object: readers get one value or the other. The values must not
	// change until PutItems returns. Of several values for one key the first counts, with cfg.Upsert
	// the last, and the others share its result.
	//
	// InvalidParams: a bad key, an empty value, or with cfg.Upsert another group than the object has.
	// NoAvailableHandle: the pool has no space. ObjectReplicaBusy and ObjectHasReplicationTask: the
	// object cannot be replaced now. TransferFail. If it is unknown whether bytes arrived, the client
	// retries the put in a new allocation; that attempt inherits no pin of a replaced object.
	PutItems(ctx context.Context, items []Item, cfg model.ReplicateConfig) []PutResult

	// GetFragments reads objects into memory and returns their sizes. Object i goes to the pieces
	// dst[rows[i]:rows[i+1]], one after the other, or to dst[i] if rows is nil. The memory of different
	// keys must not overlap. A key may occur more than once. After an error the content of the memory is
	// undefined.
	//
	// ObjectNotFound and ReplicaIsNotReady: there is nothing to read. InvalidParams: the memory is too
	// small. TransferFail: no replica could be reached. ChecksumMismatch: no replica has the bytes that
	// were put. LeaseExpired: reading took longer than the lease, several times. See IsMiss. If
	// errors.Is(err, transfer.ErrQuarantined), the memory must not be used any more.
	GetFragments(ctx context.Context, keys []model.Key, dst [][]byte, rows []uint64) []model.Result[int]
	// GetIntoRanges reads ranges of objects and returns the bytes of each range, all or an error.
	// InvalidParams for a range beyond the object, else the errors of GetFragments. An error of one
	// range or key does not affect the others. The bytes are verified with the checksums of the grains
	// that the ranges touch (model.GrainSize), or with that of the whole object where it has no others.
	GetIntoRanges(ctx context.Context, reads []Ranges) [][]model.Result[int]
	// GetBuffers reads objects into memory of the client, which the caller releases, or with fresh into
	// new memory, which the caller keeps. The errors are those of GetFragments.
	GetBuffers(ctx context.Context, keys []model.Key, fresh bool) []model.Result[Lent]

	// BatchExist reports which objects can be read, and grants them a lease.
	BatchExist(ctx context.Context, keys []model.Key) []model.Result[bool]
	// QueryTo returns where objects lie, and grants them a lease. It reuses the memory of a.
	QueryTo(ctx context.Context, keys []model.Key, a *model.Answer[model.Object])
	// ListKeys returns at most limit keys greater than after in byte order, sorted, that contain a
	// match of expr ("" for all). The last one is the next call's after.
	ListKeys(ctx context.Context, expr string, after model.Key, limit int) ([]model.Key, error)
	// BatchRemove removes objects. ObjectNotFound; ObjectHasLease while readers may use the object,
	// unless force; ReplicaIsNotReady while it is being put.
	BatchRemove(ctx context.Context, keys []model.Key, force bool) []error
	// RemoveByRegex removes the objects whose keys match (RE2 syntax, unanchored; "" for all) and that
	// may be removed, and returns their number. An object that is put meanwhile may be removed or stay. InvalidParams for a
	// malformed expression.
	RemoveByRegex(ctx context.Context, expr string, force bool) (int, error)
	// ClearReplicas removes the replicas on a segment, or with "" whole objects, of those keys that
	// this client put and no client is reading, and returns those keys.
	ClearReplicas(ctx context.Context, keys []model.Key, segment string) ([]model.Key, error)
	// CreateTask has the node that holds an object copy or move it. It returns at once; see QueryTask.
	// spec.Tenant is the client's. ObjectNotFound, SegmentNotFound, TaskPendingLimitExceeded,
	// InvalidParams.
	CreateTask(ctx context.Context, spec model.TaskSpec) (model.TaskID, error)
	// QueryTask returns a task, or TaskNotFound.
	QueryTask(ctx context.Context, id model.TaskID) (model.Task, error)

	// RegisterBuffer registers memory with the transports, so that puts from it and gets into it need
	// no copy by this program. It must stay in place until UnregisterBuffer returns. location is where
	// the memory is: "cpu:0", "cuda:1", "" for unknown. InvalidParams for empty memory or an overlap
	// with registered memory.
	RegisterBuffer(ctx context.Context, mem []byte, location string) error
	// UnregisterBuffer ends the registration of memory that starts where a registered buffer does. On
	// an error other than InvalidParams the memory must not be reused yet.
	UnregisterBuffer(ctx context.Context, mem []byte) error

	// Layers returns the layer-wise sessions of this client.
	Layers() Layers
}

// Layers moves objects layer by layer, in sessions. A session is about one object: the client asks
// the master when it starts and when it ends, and any number of calls in between move ranges of the
// object without asking. A user has at most one session for reading and one for writing of a key.
// Methods return a result per key, in the order of the keys. Safe for concurrent use.
type Layers interface {
	// StartGets starts sessions for reading: the client asks the master once where the objects lie,
	// and renews its leases in the background, a few times per lease for all sessions together, until
	// EndGets. Starting an open session renews it. ObjectNotFound and ReplicaIsNotReady: there is
	// nothing to read. UnavailableInCurrentStatus: too many sessions are open. An error leaves an open
	// session as it was.
	StartGets(ctx context.Context, keys []model.Key) []error
	// GetRanges reads ranges of the objects of sessions, without asking the master, and returns the
	// bytes of all ranges of each key. An error of one range fails its key, and no other key.
	//
	// InvalidParams: no session is open, or a range is beyond the object. LeaseExpired: the bytes may
	// not be the object's any more, since the master did not answer for too long, or has another value
	// by now. Else the errors of Pool.GetIntoRanges, and its verification. The hot cache is not
	// used.
	GetRanges(ctx context.Context, reads []Ranges) []model.Result[int]
	// EndGets ends sessions for reading; reads in flight still succeed. It ignores keys without a
	// session, since the client ends idle sessions as well.
	EndGets(ctx context.Context, keys []model.Key) error

	// StartPuts starts sessions for writing: the client asks the master once for space; sizes are in
	// bytes. The objects cannot be read before EndPuts. groups is empty or has one for each key.
	//
	// ObjectAlreadyExists: the object exists, or a client, perhaps this one, is writing it; there is
	// nothing to write. UnavailableInCurrentStatus: too many sessions are open. Else the errors of
	// Pool.PutItems.
	StartPuts(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error
	// PutRanges writes ranges of the objects of sessions to all of their replicas, without asking the
	// master, and returns the bytes of all ranges of each key. The memory must not change until it
	// returns. The ranges may come in any order and more than once; overlapping ranges of concurrent
	// calls must have the same bytes.
	//
	// InvalidParams: no session is open, or a range is beyond the object; nothing of the key was
	// written. TransferFail: the object cannot be completed any more, and every further write of the
	// session has this error. An error of one key does not affect the others.
	PutRanges(ctx context.Context, writes []Ranges) []model.Result[int]
	// EndPuts makes objects readable whose bytes are all in place, and ends their sessions. It waits
	// for writes in flight, which end within the transfer timeout. The object gets checksums,
	// whatever the order and number of the writes.
	//
	// InvalidParams: no session is open, or bytes are missing. TransferFail: a write failed. Then the
	// put is revoked. RPCFail and RPCTimeout: the master gave no answer; the session stays, accepts no
	// more writes, and can be ended or revoked again.
	EndPuts(ctx context.Context, keys []model.Key) []error
	// RevokePuts revokes puts and ends their sessions. It waits for writes in flight. A key without a
	// session, or whose put the master revoked already, is a success. RPCFail and RPCTimeout as with
	// EndPuts. If a peer may still write, the master quarantines the memory until its timeout.
	RevokePuts(ctx context.Context, keys []model.Key) []error

	// Close ends all sessions and revokes the puts among them. It waits for writes in flight, which
	// end within the transfer timeout. Repeatable.
	Close(ctx context.Context) error
}

// Item is one object to put.
type Item struct {
	Key model.Key
	// Value is the object's bytes in one or several pieces of memory, one after the other. The client
	// reads them in place.
	Value [][]byte
	// Group is that of model.PutItem.
	Group string
}

// PutResult is the result of one put.
type PutResult struct {
	// Existed is true if the object existed already and nothing was written, which is a success.
	Existed bool
	Err     error
}

// Fragment is a range of an object, from Offset on, and the memory that it comes from or goes to.
type Fragment struct {
	Offset uint64
	Mem    []byte
}

// Within reports whether the range is within an object of size bytes.
func (f Fragment) Within(size uint64) bool {
	return f.Offset <= size && uint64(len(f.Mem)) <= size-f.Offset
}

// Ranges are ranges of one object.
type Ranges struct {
	Key       model.Key
	Fragments []Fragment
}

// Lent is an object that was read into memory of the client, until Release. Releasing twice does
// nothing.
type Lent interface {
	Bytes() []byte
	Release()
}

// IsMiss reports whether the error of a read means that the object is not available now and has to be
// computed again: it does not exist, its replicas are lost or damaged, or they could not be reached in
// time. Errors of the call itself (bad parameters, an unreachable master, a cancelled context) are no
// misses.
func IsMiss(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	switch errs.CodeOf(err) {
	case errs.ObjectNotFound, errs.ReplicaIsNotReady, errs.ReplicaIsGone, errs.InvalidReplica,
		errs.ChecksumMismatch, errs.LeaseExpired, errs.TransferFail:
		return true
	}
	return false
}

// Quote returns a key as errors show it: quoted, and shortened if it is long.
func Quote(k model.Key) string {
	if len(k) > 64 {
		k = k[:64] + "..."
	}
	return "\"" + k + "\""
}

// Repeat returns the same error for n keys.
func Repeat(err error, n int) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

// CheckStart returns an error for arguments of Layers.StartPuts that do not fit together.
func CheckStart(keys, sizes, groups int) error {
	if sizes != keys || groups != 0 && groups != keys {
		return errs.New(errs.InvalidParams, "store: start to put", "%d keys came with %d sizes and %d groups", keys, sizes, groups)
	}
	return nil
}

// CheckRows returns an error for arguments of Pool.GetFragments that do not fit together.
func CheckRows(keys, pieces int, rows []uint64) error {
	if rows == nil && pieces == keys || len(rows) == keys+1 && slices.IsSorted(rows) && rows[keys] <= uint64(pieces) {
		return nil
	}
	return errs.New(errs.InvalidParams, "store: get", "%d keys came with %d buffers", keys, pieces)
}

// Row returns the memory of object i, as Pool.GetFragments describes it.
func Row(dst [][]byte, rows []uint64, i int) [][]byte {
	if rows == nil {
		return dst[i : i+1]
	}
	return dst[rows[i]:rows[i+1]]
}
