// Package metrics counts what the master does and shows it under the names that existing
// dashboards and scripts know.
//
// The hot path adds to plain atomic counters; names, labels and help texts are added only when a
// client scrapes. Names of features that this master does not have are present and stay 0, so
// that a dashboard finds every series. Everything is safe for concurrent use.
package metrics

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
)

// Set is all counters of a master. The zero value is ready.
type Set struct {
	Exist, Get, PutStart, PutEnd, PutRevoke Keyed

	Remove, RemoveByRegex, RemoveAll, Mount, Unmount, Remount, Ping Op
	// GetByRegex counts calls, Get the keys that they found.
	GetByRegex Op
	// QueryHosts counts clients as items, ClearReplicas keys.
	QueryHosts, ClearReplicas Batch

	Copy, Move                                                          Transfer
	CreateCopyTask, CreateMoveTask, QueryTask, FetchTasks, CompleteTask Op
	// TaskTimes are from the creation of a task to its end, failed ones included.
	TaskTimes  Durations
	Promotions Promotions
	// DrainedObjects and DrainedBytes were moved away by drain jobs.
	DrainedObjects, DrainedBytes Counter

	// AllocFailures are puts that found no space, PartialAllocs puts that got fewer copies
	// than they wanted.
	AllocFailures, PartialAllocs Counter
	ValueSizes                   Sizes
	// Capped are puts that were refused because their client has too many unfinished ones.
	Capped Counter
	// PutTimes are from the start of a put to its end.
	PutTimes Durations
	// Unsummed are puts that ended without a checksum.
	Unsummed Counter
	// Upserts replaced a value that was there; UpsertsInPlace of them in its own memory.
	Upserts, UpsertsInPlace Counter

	// MemHits and MemHitBytes are reads that were answered with a copy in memory, TierHits and TierHitBytes
	// those with copies on storage tiers only; Gets counts every key asked for, ValidGets those with a readable copy.
	MemHits, MemHitBytes, TierHits, TierHitBytes, Gets, ValidGets Counter

	// EvictAttempts are evictions that began, EvictSuccesses those that freed something.
	EvictAttempts, EvictSuccesses, EvictedKeys, EvictedBytes Counter
	// EvictTimes are how long evictions took; EvictedAges how long ago the objects that
	// they took had been put.
	EvictTimes Durations
	// EvictedUnsaved are objects that went before a storage tier had them.
	EvictedUnsaved Counter
	EvictedAges    Ages
	// LeaseWaits are observed by a put that finds no space while readers hold some: how
	// long until the first of their leases ends.
	LeaseWaits Durations

	// Discarded are unfinished puts whose memory was held back, because their writers were
	// given up or, Quarantined, could not tell whether they are done; Released are copies
	// whose memory has been freed since.
	Discarded, Quarantined, Released Counter

	// TenantRejects has the labels tenant and reason (RejectQuota and so on),
	// TenantEvictedBytes the label tenant.
	TenantRejects, TenantEvictedBytes Labelled

	// Paused is how many milliseconds the master's clock stood still, since its process did not run.
	Paused Counter

	// RPC is how long calls took, by method; fed by the API that serves them.
	RPC Methods
	// ForeignConnections were turned away from the RPC port, by protocol; fed by the API.
	ForeignConnections Labelled
	// UpstreamConnections is how many connections upstream's clients have; fed by the API.
	UpstreamConnections atomic.Int64
	// RequestMemory is how many bytes of the memory for large requests are taken, RequestWaits
	// counts the requests that waited for some, ConnectionsClosed the connections that were closed
	// because there were too many, by reason; fed by the API.
	RequestMemory     atomic.Int64
	RequestWaits      Counter
	ConnectionsClosed Labelled
}

// Promotions counts the copies from storage tiers into memory.
type Promotions struct {
	// Admitted began. Of them, Completed ended, with CompletedBytes; Failed were given up by their nodes, Expired by the master;
	// the objects of Cancelled went.
	Admitted, Completed, CompletedBytes, Failed, Expired, Cancelled Counter
	// RejectedWatermark found memory used above the watermark, RejectedCap too many others in progress.
	RejectedWatermark, RejectedCap Counter
}

// The reasons of TenantRejects. The first is upstream's.
const (
	RejectQuota        = "quota_exceeded"
	RejectUnregistered = "not_registered"
	RejectClosed       = "admission_closed"
)

// Transfer returns the counters of a kind of copy.
func (s *Set) Transfer(kind model.CopyKind) *Transfer {
	if kind == model.MoveObject {
		return &s.Move
	}
	return &s.Copy
}

// CreateTask returns the counter of the creation of tasks of a kind.
func (s *Set) CreateTask(kind model.CopyKind) *Op {
	if kind == model.MoveObject {
		return &s.CreateMoveTask
	}
	return &s.CreateCopyTask
}

// Gauges is what a master holds at one moment.
type Gauges struct {
	// Used and Capacity are of memory, as Segments are, TierUsed and TierCapacity of storage tiers.
	Used, Capacity, TierUsed, TierCapacity uint64
	Segments                               []SegmentGauge
	// Readable objects are InMemory, or Stored on a tier, or both.
	Keys, Readable, InMemory, Stored int
	// SoftPinned are the objects whose soft pin has not run out.
	SoftPinned int
	Clients    int
	// WritingBytes belong to unfinished puts. HeldBytes are in quarantine, and StagingBytes the part of them that stems
	// from puts that were given up.
	WritingBytes, HeldBytes, StagingBytes uint64
	// FollowedSegments are those whose ledgers a master knows that does not lead, FollowedPuts what lies there.
	FollowedSegments, FollowedPuts int
	// TasksPending wait for their client, TasksProcessing are being carried out.
	TasksPending, TasksProcessing int
	// Promoting is how many objects come from storage tiers into memory.
	Promoting int
	// Tenants is empty and TenantCapacity, the bytes that quotas share, 0 while there is
	// one tenant only.
	Tenants        []model.TenantQuota
	TenantCapacity uint64
	KVEvents       model.KVEventStats
}

// SegmentGauge is one segment name with what all segments of that name hold.
type SegmentGauge struct {
	Name           string
	Used, Capacity uint64
	// Weight is the smallest of their weights, 0 to 1.
	Weight float64
}
