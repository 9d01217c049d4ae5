package model

import "time"

// Fate says what became of a key.
type Fate int32

// The fates. A key that is not remembered was never written, or so long ago that the
// master's memory of gone keys has been used for others since.
const (
	FateUnknown  Fate = 0 // not remembered
	FateReadable Fate = 1
	FateWriting  Fate = 2
	FateEvicted  Fate = 3  // made room
	FateRemoved  Fate = 4  // removed by a caller
	FateLost     Fate = 5  // its last segment went away
	FateRevoked  Fate = 6  // its writer gave up
	FateOverdue  Fate = 7  // its writer did not finish in time, or expired
	FateDamaged  Fate = 8  // removed by force, since its bytes were wrong
	FateReplaced Fate = 9  // a new value was put in its place
	FateAbsent   Fate = 10 // its node is silent; it comes back with the node
)

// String returns a word for the fate.
func (f Fate) String() string {
	names := [...]string{"unknown", "readable", "writing", "evicted", "removed", "lost", "revoked", "overdue", "damaged", "replaced", "absent"}
	if f < 0 || int(f) >= len(names) {
		return "unknown"
	}
	return names[f]
}

// Story is what the master can say about a key.
type Story struct {
	Key    Key
	Tenant Tenant
	Fate   Fate
	// When is when the fate befell it: the end of its put, or when it went. Zero for
	// FateUnknown.
	When time.Time
	// Reason is a sentence: what it means and, where the key is gone, why.
	Reason string
	// Since is how far back the master remembers keys that are gone.
	Since time.Time

	// The rest is set for objects that are there.

	Size     uint64
	Checksum Checksum
	DataType DataType
	Group    string
	Creator  ClientID
	// LeaseLeft is how much longer readers protect it, ProbeLeft lookups.
	LeaseLeft, ProbeLeft time.Duration
	// SoftPinLeft is how much longer it is softly pinned.
	SoftPinLeft time.Duration
	HardPin     bool
	// LastReader is the client that asked last where it lies, zero where none did or
	// the reader gave no name; LastRead when that was.
	LastReader ClientID
	LastRead   time.Time
	Replicas   []Replica
	// Copying is true while a copy or move of it is in progress.
	Copying bool
}

// KVEventStats says what became of the events about objects that come and go, since the
// start.
type KVEventStats struct {
	// Enabled is false while nothing is published; then the rest is 0.
	Enabled bool
	// Batches and Events went out, with subscribers or without.
	Batches, Events uint64
	// Dropped are events that found the queue full and pushed out the oldest.
	Dropped uint64
	// Skipped are events on keys that are no hash. They are published without one, or not at
	// all where keys are not published.
	Skipped uint64
	// Subscribers are connected now. Missed are the batches that were too late for one of
	// them, counted for each.
	Subscribers int
	Missed      uint64
}
