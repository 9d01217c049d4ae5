// Package ledger keeps what lies in one segment, beside the bytes that it describes.
//
// The node that owns a segment has the ledger; the master writes it. Whenever the master gives an
// extent to a put, ends the put, removes the object or reclaims its memory, it appends a record.
// A master that starts anew fences every ledger with its epoch, so that no master before it can
// append any more, and then reads the ledgers to learn what the pool holds. A ledger shares the
// fate of the memory that it describes, so it needs no replication and no disk.
//
// # Promises
//
//   - What Append has answered survives the death of the process at any instruction, as long as the
//     memory survives: the length of the log is one aligned word, which is stored last.
//   - A ledger applies batches of its highest epoch only. A batch is applied whole or not at all,
//     once, and in the order of the sequence numbers.
//   - Every batch carries a CRC-32C. Open refuses a log in which one does not match (ErrDamaged).
//   - Of a put that is complete, the ledger names the key, the extents, the size, the checksum and the
//     version, which no other put of the pool ever has.
//
// # Layout
//
// Integers are little-endian. The first page is the header (header.go); a log of batches follows
// (batch.go). Rewriting copies the records that still count to the other end of the memory and then
// switches over with one aligned word, see compact.go.
package ledger

import (
	"cmp"
	"errors"

	"github.com/mooncake-go/mooncake/core/model"
)

// Epoch numbers the masters of a pool: each has a higher one than all before it. 0 is none.
type Epoch uint64

// Put numbers a put, copy or move among those of its epoch. A number is never used twice.
type Put uint64

// Seq numbers the batches of one ledger, from 1 on without gaps.
type Seq uint64

// Version orders what was put under one name: of two complete values the higher version is the
// current one.
type Version struct {
	Epoch Epoch
	Put   Put
}

// Compare is negative where v is older than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Epoch, w.Epoch), cmp.Compare(v.Put, w.Put))
}

// Extent is a range of the segment, in bytes.
type Extent struct {
	Offset, Length uint64
}

// End is the first offset behind the extent.
func (e Extent) End() uint64 { return e.Offset + e.Length }

// Flags say what holds of an object for as long as it lives.
type Flags uint8

// The flags of an object.
const (
	// HardPin says that the object is never evicted.
	HardPin Flags = 1 << iota
	// Copied says that the extents are the target of a copy or move, not of a put.
	Copied
	knownFlags = HardPin | Copied
)

// State is how far a put has come.
type State uint8

// Gone is the state of a put that a ledger does not have.
const Gone State = 0

// The states, in their order.
const (
	// Writing says that the memory may be written and is not readable.
	Writing State = iota + 1
	// Complete says that the object can be read.
	Complete
	// Held says that the object is not readable any more, while readers or writers of the past may
	// still use its memory.
	Held
)

// Object is what the master knows of an object when its put begins.
type Object struct {
	// Name is the key within its tenant, as the master's table has it.
	Name string
	// Size is the object's size in bytes, of all parts together.
	Size uint64
	// Part is the number of the first of Extents among the Parts of its replica, from 0 on. A replica
	// has more than one part where it is striped over several segments.
	Part, Parts uint32
	Extents     []Extent
	// Value is the put that wrote the bytes: the put itself, or an earlier one where a put has several
	// replicas or parts, each with a number of its own, or where a copy or move repeats it. 0 stands for
	// the put itself.
	Value Put
	Flags Flags
	// Type is the model.DataType.
	Type uint8
	// Group is the name of the objects that are evicted together, empty for none.
	Group string
	// Writer is the client that makes the put.
	Writer model.ClientID
}

// Ending is what the master learns when a put ends.
type Ending struct {
	Checksum model.Checksum
	// SoftUntil is when the soft pin ends, in milliseconds since 1970; 0 for none.
	SoftUntil uint64
	// Grains are the checksums of the object's grains (model.GrainSize), nil for none.
	Grains []uint32
}

// Unacknowledged is the value of a checksum of no kind that says that the put's writer ended it without knowing that its bytes
// have arrived, as upstream's clients do over tcp.
const Unacknowledged = 1

// Entry is one put of a ledger with all that is known of it.
type Entry struct {
	Version
	State State
	// Ended says that the put has ended, so that its writer does not write any more. It tells readers
	// of the past from writers where the state is Held.
	Ended bool
	Object
	Ending
}

// Errors of a ledger. They are wrapped with the segment and the numbers.
var (
	// ErrFenced says that a later master has fenced the ledger: the caller is deposed.
	ErrFenced = errors.New("a later master has taken the segment over")
	// ErrGap says that batches are missing between the last one and this one.
	ErrGap = errors.New("batches are missing before this one")
	// ErrDamaged says that bytes are not what was written, or contradict what was written before.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrLayout says that another release wrote the ledger, with a layout that this one does not read.
	ErrLayout = errors.New("another release wrote the ledger")
	// ErrFull says that the ledger cannot grow further.
	ErrFull = errors.New("the ledger is full")
)
