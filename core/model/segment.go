package model

import "time"

// Segment is a range of one node's memory that the pool may place objects in.
type Segment struct {
	ID SegmentID
	// Name is the node's name in the metadata service, host:port. Several segments of one
	// node share it.
	Name string
	// Base is the address of the first byte in the node's own address space.
	Base uint64
	Size uint64
	// Endpoint is the name under which peers look the node's transports up: equal to Name,
	// or the address of its handshake daemon with P2PHANDSHAKE.
	Endpoint string
	// Protocol is the transport the node prefers, for display: "tcp", "rdma".
	Protocol string
	// HostID is the host part of the name, empty for loopback and wildcard addresses.
	HostID string
}

// PlainProtocol reports whether upstream's clients reach a segment with that protocol.
func PlainProtocol(protocol string) bool { return protocol == "tcp" || protocol == "rdma" }

// SegmentStatus is where a segment stands. The numbers are upstream's.
type SegmentStatus int32

// The states of a segment.
const (
	SegmentUndefined            SegmentStatus = 0
	SegmentOK                   SegmentStatus = 1
	SegmentDraining             SegmentStatus = 2
	SegmentDrained              SegmentStatus = 3
	SegmentGracefullyUnmounting SegmentStatus = 4
	SegmentUnmounting           SegmentStatus = 5
)

// String returns upstream's name of the state.
func (s SegmentStatus) String() string {
	names := [...]string{"UNDEFINED", "OK", "DRAINING", "DRAINED", "GRACEFULLY_UNMOUNTING", "UNMOUNTING"}
	if s < 0 || int(s) >= len(names) {
		return "UNDEFINED"
	}
	return names[s]
}

// SegmentInfo is a segment as the master sees it.
type SegmentInfo struct {
	Segment
	Client ClientID
	Status SegmentStatus
	// Used is what live extents take of it, rounding of the allocator included.
	Used uint64
	// Weight is the share of new objects that the segment gets beside a healthy one, 0 to
	// 1. It falls at once when its node is silent, slow or fails transfers, and comes back
	// gradually.
	Weight float64
	// Deadline is when a graceful unmount becomes final, zero where none is in progress.
	Deadline time.Time
	// Writing is what unfinished puts take, in bytes, and Held what no object takes and cannot be used yet: a writer that
	// was given up or a last reader may still use it, or the ledger has yet to learn that it is free.
	Writing, Held uint64
	// AbsentSince is since when the node is silent, zero if it is not: what lies there is unreadable and not forgotten.
	AbsentSince time.Time
	// Adopted is how many objects the master took over from the segment's ledger.
	Adopted uint64
	// Keeper is that of LedgerState when the node attached last.
	Keeper string
}

// ClientStatus is the master's answer to a ping. The numbers are upstream's.
type ClientStatus int32

// The answers.
const (
	ClientUndefined ClientStatus = 0
	ClientOK        ClientStatus = 1
	// ClientNeedRemount: the master does not know the client (it expired, or the master
	// was restarted); mount every segment again.
	ClientNeedRemount ClientStatus = 2
)

// TierPolicy says how nodes use their storage tiers.
type TierPolicy struct {
	// PromoteAt is the read of a copy on a tier that brings the object back into memory, 0 for none.
	PromoteAt uint32
	// QueueLimit is how many objects of a node may wait to be saved. Beyond it, those that wait longest are not saved.
	QueueLimit uint64
	// OnEvict says that nodes save the objects that eviction chooses, of which the master tells them in their ledgers, and no
	// others.
	OnEvict bool
	// PromoteMost is how many objects a node brings back at the same time, 0 for any number.
	PromoteMost uint32
	// Folder is where a node makes a storage tier that has none of its own, empty for nowhere.
	Folder string
	// Quota is the size of such a tier in bytes, 0 for what fits the node. Keep says that it evicts nothing.
	Quota uint64
	Keep  bool
}

// PingReply answers a ping.
type PingReply struct {
	Status ClientStatus
	// ViewVersion is the number of the leadership view, 0 without high availability.
	ViewVersion uint64
	// Epoch is that of the master, of several cells the lowest one, where a cell that is silent counts with its last one; see
	// PutEpoch. 0 from a master that has none, and before all cells have answered.
	Epoch uint64
	// Tiers says how nodes use their storage tiers, nil from a master that takes none.
	Tiers *TierPolicy
	// Clock is that of the master.
	Clock Clock
	// Sent is when the ping was sent, by the clock of package boottime. It does not travel.
	Sent time.Time
	// Cells are the answers of the masters of several cells, in order, nil where there is one master. They do not travel.
	Cells []CellPing
	// Partial says that the answer of a cell is missing in which the client may have puts.
	Partial bool
}

// CellPing is the answer of the master of a cell to a ping, or its error.
type CellPing struct {
	Status ClientStatus
	Epoch  uint64
	Clock  Clock
	Err    error
}

// Newest returns the highest epoch of the masters that answered.
func (r PingReply) Newest() uint64 {
	newest := r.Epoch
	for _, c := range r.Cells {
		newest = max(newest, c.Epoch)
	}
	return newest
}

// Of returns the answer of one cell.
func (r PingReply) Of(cell int) CellPing {
	if cell < len(r.Cells) {
		return r.Cells[cell]
	}
	return CellPing{Status: r.Status, Epoch: r.Epoch, Clock: r.Clock}
}

// PingReport is what a client tells the master while it says that it is alive.
type PingReport struct {
	// Peers says how transfers with other nodes went since the last report.
	Peers []PeerReport
	// Quiet promises that no write of the client's puts goes on for longer than this after its last ping
	// that the master answered with ClientOK was sent. 0 promises nothing.
	Quiet time.Duration
	// PutsSince says that the client writes, now and later, for no put of an epoch before it; see PutEpoch.
	PutsSince uint64
}

// PeerReport is what one client saw of one endpoint.
type PeerReport struct {
	Endpoint string
	// Done and Failed count transfers. Failures that the peer is not to blame for, such as
	// a deadline of the caller, are not counted.
	Done, Failed uint32
	// Bytes were moved by those that were done, in Busy of time with at least one of them
	// in progress.
	Bytes uint64
	Busy  time.Duration
}
