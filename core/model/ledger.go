package model

import "time"

// LedgerState is a segment together with how far its ledger has come at the node that has both.
type LedgerState struct {
	Segment Segment
	// Fence is the epoch of the last master that the ledger obeyed, 0 for none, and Seq the number of its last
	// batch.
	Fence, Seq uint64
	// Puts is how many puts the ledger has, about.
	Puts uint64
	// Layout is that of the records that the node reads.
	Layout uint32
	// Lease is the longest time for which one of the ledger's masters let readers rely on what lies there.
	Lease time.Duration
	// Keeper is what keeps the segment and the ledger beyond the life of the node's process, for people; empty for nothing.
	Keeper string
	// Largest is, of a storage tier, the size in bytes of the largest object that it keeps, 0 if that is not known.
	Largest uint64
	// Grants is what the master makes grants for the segment with, nil where the node asks for none.
	Grants *GrantKey
	// Wiped is set when what the ledger had was lost, so that readers may rely on memory that it does not name.
	Wiped bool
}

// Attached answers a node that attached its segments.
type Attached struct {
	// Lease is how long this master lets readers rely on what lies in a segment.
	Lease time.Duration
	// Write is how long this master lets the writer of a put write.
	Write time.Duration
	Clock Clock
	// Segments has one entry for each segment of the call.
	Segments []LedgerGrant
}

// LedgerGrant is what the node does with one ledger: it fences the ledger with Epoch, unless that is its fence already,
// and, unless Resume is set, reports what the ledger has.
type LedgerGrant struct {
	Epoch  uint64
	Resume bool
	// Tail says that the master knows what the ledger had up to the batch Since, so that a report of the batches after
	// it will do.
	Tail  bool
	Since uint64
}

// LedgerReport is one piece of what a ledger has, as ledger.Log.Snapshot makes it.
type LedgerReport struct {
	Segment SegmentID
	Epoch   uint64
	// Index counts the pieces of a report from 0 on; Last marks the last one.
	Index uint32
	Last  bool
	// Seq is the number of the last batch that the report includes. The last piece has it.
	Seq uint64
	// Batch may be empty.
	Batch []byte
	// Tail says that Batch is batches as ledger.Log.Since returns them, after those that the master knows.
	Tail bool
}

// LedgerAck says up to which batch a ledger has applied what the master of an epoch wrote.
type LedgerAck struct {
	Segment    SegmentID
	Epoch, Seq uint64
}

// LedgerBatch is a batch of records for the ledger of a segment.
type LedgerBatch struct {
	Segment SegmentID
	Bytes   []byte
}

// Pulled answers a pull.
type Pulled struct {
	// Round numbers the answer. The next pull names it.
	Round   uint64
	Batches []LedgerBatch
	// Followers are the addresses of the masters that follow this one: the node tells them what its ledgers have.
	Followers []string
}

// putBits is how many bits of the number of a put count the puts of one millisecond of a master's epoch.
const putBits = 22

// PutEpoch returns the epoch of the master that gave a put its number, in milliseconds since 1970 as a rule: a later master
// has a higher one.
func PutEpoch(put uint64) uint64 { return put >> putBits }

// CallGap is how far apart, at least, the numbers of puts of two calls are. Those of one call are closer to each other, unless
// other calls ran meanwhile. So a node sees which objects were put together, as the pages of a prompt are.
const CallGap = 64

// FirstPut returns the lowest number of a put of an epoch.
func FirstPut(epoch uint64) uint64 { return epoch << putBits }
