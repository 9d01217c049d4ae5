// Package model holds the nouns of the pool as plain data: keys, objects, replicas,
// segments, clients and leases. It does no I/O and imports no other room.
//
// Units: sizes and addresses are bytes, times are time.Time and time.Duration.
package model

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ReplicaStatus is where a replica stands. The numbers are upstream's.
type ReplicaStatus int32

// The states of a replica.
const (
	ReplicaUndefined   ReplicaStatus = 0
	ReplicaInitialized ReplicaStatus = 1
	ReplicaProcessing  ReplicaStatus = 2 // being written, not readable
	ReplicaComplete    ReplicaStatus = 3 // readable
	ReplicaRemoved     ReplicaStatus = 4
	ReplicaFailed      ReplicaStatus = 5
)

// Part is a piece of a copy that lies in one segment: Size bytes at Address in the address
// space of the node that Endpoint names.
type Part struct {
	SegmentID SegmentID
	Segment   string // name of the segment
	Endpoint  string
	Protocol  string
	Address   uint64
	Size      uint64
	// Permit is what the caller shows to the node to read or write the part; nil where the node asks for nothing.
	Permit *transport.Permit
}

// SamePlace reports whether two parts are the same memory.
func (p Part) SamePlace(o Part) bool {
	p.Permit, o.Permit = nil, nil
	return p == o
}

// Replica says where one copy of an object lies.
type Replica struct {
	ID     uint64
	Status ReplicaStatus
	// Part is the first piece, the whole copy as a rule.
	Part
	// More are the further pieces, in the order of the bytes, of a copy that is striped
	// over several segments.
	More []Part
}

// Bytes is the size of the whole copy.
func (r *Replica) Bytes() uint64 {
	n := r.Size
	for i := range r.More {
		n += r.More[i].Size
	}
	return n
}

// Plain reports whether upstream's clients can read and write the copy: it is one piece of memory that they reach.
func (r *Replica) Plain() bool { return len(r.More) == 0 && PlainProtocol(r.Protocol) }

// Parts yields the pieces with the offset of each in the object.
func (r *Replica) Parts(yield func(offset uint64, p Part) bool) {
	if !yield(0, r.Part) {
		return
	}
	at := r.Size
	for _, p := range r.More {
		if !yield(at, p) {
			return
		}
		at += p.Size
	}
}

// ChecksumKind names how a checksum is computed.
type ChecksumKind uint8

// The kinds.
const (
	ChecksumNone   ChecksumKind = 0
	ChecksumCRC32C ChecksumKind = 1 // Castagnoli, in the low 32 bits
	// ChecksumSealed is ChecksumCRC32C of an object that its client has sealed: its bytes are not the value.
	ChecksumSealed ChecksumKind = 2
)

// Checksum is the checksum of an object's bytes, kept by the master from put to get.
type Checksum struct {
	Kind  ChecksumKind
	Value uint64
}

// CRC32C reports whether the value is the CRC-32C of the bytes.
func (c Checksum) CRC32C() bool { return c.Kind == ChecksumCRC32C || c.Kind == ChecksumSealed }

// Object is what a reader needs to read an object.
type Object struct {
	Size     uint64
	Checksum Checksum
	// Grains are the checksums of the object's grains, where the reader asked for them and the object
	// has them.
	Grains []uint32
	// Replicas are the readable copies, in no particular order.
	Replicas []Replica
	// LeaseTTL is how long, counted from before the request was sent, the master keeps
	// the bytes in place. Data that arrives later must be thrown away.
	LeaseTTL time.Duration
}

// Renew has the reads of the object as it was described before, in old, show the grants of this description: the two share them
// from then on. Nothing else may use this description yet.
func (o *Object) Renew(old *Object) {
	for i := range o.Replicas {
		r := &o.Replicas[i]
		for j := range old.Replicas {
			if was := &old.Replicas[j]; was.ID == r.ID && len(was.More) == len(r.More) {
				r.Part.renew(&was.Part)
				for k := range r.More {
					r.More[k].renew(&was.More[k])
				}
			}
		}
	}
}

func (p *Part) renew(old *Part) {
	if g := p.Permit.Grant(); g != nil && old.Permit != nil && p.SamePlace(*old) {
		old.Permit.Renew(g)
		p.Permit = old.Permit
	}
}

// DataType says what an object holds. The numbers are upstream's.
type DataType int32

// The data types.
const (
	DataUnknown        DataType = 0
	DataKVCache        DataType = 1
	DataTensor         DataType = 2
	DataWeight         DataType = 3
	DataSample         DataType = 4
	DataActivation     DataType = 5
	DataGradient       DataType = 6
	DataOptimizerState DataType = 7
	DataMetadata       DataType = 8
	DataGeneral        DataType = 9
)

// ReplicateConfig says how objects of one put are to be placed.
type ReplicateConfig struct {
	// Upsert replaces an object that is there. Without it such a put is refused.
	Upsert bool
	// ReplicaNum is the number of copies wanted, at least 1. Best effort: with fewer
	// segments than copies whose nodes answer, fewer are made.
	ReplicaNum uint32
	// PreferredSegments are segment names to try first, in order.
	PreferredSegments []string
	// SameNode puts all objects of the call on one host, that of the writer if it has
	// room (prefer_alloc_in_same_node).
	SameNode bool
	// HostID is the writer's host as its segments state it, for the strategies that
	// prefer it. Empty is unknown.
	HostID string
	// SoftPin protects the object from eviction as long as others can go.
	SoftPin SoftPin
	// HardPin keeps the object from eviction until it is removed.
	HardPin bool
	// DataType is kept with the object.
	DataType DataType
}

// SoftPinAction says what a put does to the soft pin of a key. The numbers are upstream's.
type SoftPinAction uint8

// The actions.
const (
	SoftPinPreserve SoftPinAction = 0 // as it was; a new object has none
	SoftPinEnable   SoftPinAction = 1
	SoftPinDisable  SoftPinAction = 2
)

// SoftPin is what a put says of the soft pin. It begins when the object becomes readable
// and reads do not extend it.
type SoftPin struct {
	Action SoftPinAction
	// TTL is how long it lasts with SoftPinEnable; nil is the master's default, 0 no pin.
	TTL *time.Duration
}

// DefaultReplicateConfig asks for one copy anywhere.
func DefaultReplicateConfig() ReplicateConfig { return ReplicateConfig{ReplicaNum: 1} }

// PutItem asks for room for one object.
type PutItem struct {
	Key  Key
	Size uint64 // at least 1
	// Group joins the object to others that are of use only together: a read protects
	// them all, and they are evicted together. Empty is none.
	Group string
}

// EndItem makes one object readable.
type EndItem struct {
	Key      Key
	Checksum Checksum
	// Grains are the checksums of the object's grains, GrainCount of them, whose combination is
	// Checksum; none where the writer computed none.
	Grains []uint32
	// Put says which put of the key is meant: the ID of the first replica that PutStart
	// answered with. 0 is whichever put of the client is in progress, also one that took the
	// place of the caller's own when that was overdue.
	Put uint64
}

// RevokeItem gives up one put.
type RevokeItem struct {
	Key Key
	Put uint64 // as in EndItem
	// Quarantined: a peer may still write to its place. The key is free at once, the memory
	// when no peer can be writing there any more.
	Quarantined bool
}

// Result is the per-key answer of a batch call: a value, or an error with an errs.Code.
type Result[T any] struct {
	Value T
	Err   error
}

// Answer is what a master says of each item of a batch, in memory that the next answer uses: a caller
// copies what it keeps for longer.
type Answer[T any] struct {
	Results []Result[T]
	// Copies and More hold the replicas that Results name, and their further parts.
	Copies []Replica
	More   []Part
	// WithGrains, set before the call, asks for Object.Grains. They are not in memory of the answer.
	WithGrains bool
	// parts are the answers of several masters to parts of the batch, and whole what they are together.
	parts []Answer[T]
	whole []Result[T]
}

// Whole returns the memory for the results of several masters together.
func (a *Answer[T]) Whole() *[]Result[T] { return &a.whole }

// Parts returns the memory for the answers of n masters to parts of the batch. It is not that of Whole.
func (a *Answer[T]) Parts(n int) []Answer[T] {
	if len(a.parts) != n {
		a.parts = make([]Answer[T], n)
	}
	for i := range a.parts {
		a.parts[i].WithGrains = a.WithGrains
	}
	return a.parts
}
