// Package tier is the contract of storage tiers: what keeps objects that leave memory, on a disk
// or on any storage.
//
// A tier keeps records. A record is the value of one version of one key. Its place belongs to the
// tier, which names it by a Locator that only the tier interprets. The host, a store node, has the
// index: it decides which records are written, which are forgotten, and which a reader is told of.
//
// A record proves itself. A Read names the record that it expects, and the tier answers with the
// bytes of that record or with an error: never with those of another record, of an earlier version,
// or of a write that was torn. So an index may be stale without harm.
//
// Units: offsets and lengths are bytes. Concurrency: every method is safe for concurrent use.
// Submit never blocks; Reap waits.
//
// Memory: the tier may touch the memory of a region from Register until Deregister or Stop returned, and
// Op.Local from Submit until the operation's completion was reaped. A completion is terminal: the
// tier does not touch the buffer any more. Where it cannot prove that, because the storage does not
// respond, the completion is Quarantined, and a second one, Returned, follows when the buffer is
// free.
//
// The package imports the standard library and packages of this module only.
package tier

import (
	"context"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// API lists the versions of this contract that this module supports.
func API() []uint { return []uint{1} }

// Capabilities of tiers.
const (
	// CapSurvives: Scan finds records of earlier starts.
	CapSurvives plugin.Capability = "survives"
	// CapShared: a locator is good in every process that opened the same volume.
	CapShared plugin.Capability = "shared"
)

// Volume is what a tier opened.
type Volume struct {
	// ID names the storage across restarts and machines. A tier without CapSurvives has a new one
	// for every start.
	ID [16]byte
	// Generation counts the calls of Wipe over the life of the volume: each adds 1.
	Generation uint64
	// Capacity is how many bytes the records of the volume may take together, as Space counts them.
	Capacity uint64
	// MaxRecord is the size of the largest record.
	MaxRecord uint64
	// Align is a power of two. Reads and writes with Local and Offset aligned to it need no copy.
	Align uint64
}

// MaxKey is the length of the longest key.
const MaxKey = 2048

// Version orders the values of a key: the epoch of the master, then the number of the put.
type Version struct{ Epoch, Put uint64 }

// Record says what one version of one key is. A Write makes a new record and leaves those that are
// there, also those of the same key.
type Record struct {
	// Key is 1 to MaxKey bytes.
	Key     []byte
	Version Version
	// Size is the length of the value, at least 1.
	Size uint64
	// Sum is the checksum (CRC-32C) of the value, where Summed says so.
	Sum    uint32
	Summed bool
}

// Locator names the place of a record in one volume: opaque and comparable. The zero Locator names
// no record. A locator is never given to another record of the volume, also after Forget and Wipe.
type Locator [4]uint64

// Kind is what an operation does.
type Kind uint8

// The kinds.
const (
	// Write keeps Local as the value of Record.
	Write Kind = 1
	// Read copies a part of the value of Record into Local.
	Read Kind = 2
)

// String returns the name of the kind.
func (k Kind) String() string { return named(int(k), "Write", "Read") }

// Op is one operation.
type Op struct {
	// ID comes back in the completion. The caller picks it; the tier does not interpret it.
	ID   uint64
	Kind Kind
	// Record is what a Write keeps, and what a Read expects to find at the locator: the record with
	// this key, version and size, and with this checksum where both have one. The key is not touched
	// after Submit returned.
	Record Record
	// At is where a Read finds the record. A Write ignores it.
	At Locator
	// Offset is where in the value a Read begins. A Write ignores it.
	Offset uint64
	// Local is this process's memory: all bytes of a Write's value, and those of a Read from Offset
	// on. Each part lies inside one registered region. Parts of a Read do not overlap.
	Local [][]byte
	// Urgent says that a reader waits. A tier serves urgent operations before others.
	Urgent bool
	// Deadline ends the operation. The completion is Failed, or Quarantined, with the code
	// RPCTimeout. Zero means the tier's own limit, never no limit.
	Deadline time.Time
}

// Status is how an operation ended.
type Status uint8

// The states of a completion.
const (
	// OK: a Write's record can be read, and Read's bytes are in place.
	OK Status = 1
	// Failed: a Write left no record, and the buffer of a Read holds unknown bytes.
	Failed Status = 2
	// Quarantined: failed, and the storage may still touch the buffer. A second completion with the
	// same ID follows: Returned.
	Quarantined Status = 3
	// Returned: the buffer of an operation that was Quarantined is free.
	Returned Status = 4
)

// String returns the name of the status.
func (s Status) String() string { return named(int(s), "OK", "Failed", "Quarantined", "Returned") }

// named returns the name of a number from 1 on.
func named(n int, names ...string) string {
	if n < 1 || n > len(names) {
		return strconv.Itoa(n)
	}
	return names[n-1]
}

// Completion is the end of one accepted operation.
type Completion struct {
	ID     uint64
	Status Status
	// At is where a Write that is OK left the record.
	At Locator
	// Verified says that a Read that is OK covered the whole value, and that its checksum is that of
	// the record. It is true of each such Read of a record that was written with a checksum. Of any
	// other Read the tier proves the record, but not the bytes.
	Verified bool
	// Err is nil for OK and Returned. Else it carries one of these codes:
	//
	//	ObjectNotFound     Read: this record is not at the locator
	//	ChecksumMismatch   Read: the bytes are damaged; Write: Local is not what Record.Sum says
	//	NoAvailableHandle  Write: no space, until records are forgotten
	//	FileReadFail       Read: the storage failed
	//	FileWriteFail      Write: the storage failed
	//	RPCTimeout         the deadline passed
	//
	//	UnavailableInCurrentStatus  Stop gave the operation up; Write: Wipe came first
	//
	// ObjectNotFound and ChecksumMismatch have ClassPermanent. FileReadFail and FileWriteFail have
	// ClassPermanent where the place of this record is at fault, and ClassLocalDevice where the whole
	// volume is. The class of the others says nothing.
	Err error
}

// RegionID names a region within one process. The caller of Register picks it; 0 is no region.
type RegionID uint64

// Region is a range of this process's memory that takes part in operations.
type Region struct {
	ID RegionID
	// Mem is the memory. It stays valid and in place until Deregister returned.
	Mem []byte
	// FD is a descriptor of the shared memory that Mem maps from FDOffset on, -1 where the memory is
	// not shareable. The tier must not close it.
	FD       int
	FDOffset int64
}

// Found is a record that Scan found.
type Found struct {
	Record Record
	At     Locator
}

// Cursor is where a scan goes on. The zero Cursor begins one.
type Cursor [2]uint64

// Stats is what a tier tells of itself.
type Stats struct {
	// Used and Records are the space and the number of the records that can be read.
	Used, Records uint64
	// Capacity is Volume.Capacity, or less when the storage turned out to have less.
	Capacity uint64
	// LargestFree is the size of the largest value for which there is space, whatever its key.
	LargestFree uint64
	// ReadErrors and WriteErrors count operations that the storage failed.
	ReadErrors, WriteErrors uint64
	// Damaged counts records that did not prove themselves: ObjectNotFound and ChecksumMismatch of
	// reads.
	Damaged uint64
	// Oldest is how long the oldest operation has been at the storage, zero without any. One that is
	// Quarantined is there until it is Returned.
	Oldest time.Duration
}

// Tier keeps records. Before Start and after Stop, each method that returns an error returns
// UnavailableInCurrentStatus, except Reap and those of plugin.Component. A tier starts once.
type Tier interface {
	plugin.Component
	// Volume returns what was opened, with the current generation. Valid after Start.
	Volume() Volume
	// Space returns how much of the capacity a record takes, at least its size. It depends on the
	// lengths of key and value only. Valid after Start.
	Space(r Record) uint64
	// Register makes a region usable. InvalidParams for the ID 0 or one in use, an empty region, or
	// one that overlaps another. Stop ends all regions.
	Register(ctx context.Context, r Region) error
	// Deregister ends a region. It returns once no operation touches the memory any more. When the
	// context ends first, the region is closed to new operations all the same, and the error says
	// that the memory must not be reused yet: the ID stays in use, and another Deregister waits again.
	// InvalidParams for an unknown ID.
	Deregister(ctx context.Context, id RegionID) error
	// Submit takes operations and never blocks. It accepts the first `accepted` of them; a short
	// count with a nil error is back-pressure: reap, then submit the rest. A tier that is not reaped
	// accepts a bounded number. An error concerns ops[accepted], which was refused and gets no
	// completion, as those behind it: InvalidParams for a kind that does not exist, an empty or too
	// long key, a value that is empty or larger than Volume.MaxRecord, a Write whose Local is not as
	// long as the value, a Read of no bytes or past the end of the value, and memory outside of the
	// registered regions; UnavailableInCurrentStatus before Start and after Stop.
	Submit(ops []Op) (accepted int, err error)
	// Reap waits until at least one completion is there or the context ends, and stores up to
	// len(dst). Every accepted operation completes exactly once, and a second time if it was
	// Quarantined. It never returns 0 with a nil error, unless dst is empty. After Stop it gives out
	// what is left, then returns 0 and an error for which errors.Is(err, ErrStopped) holds.
	Reap(ctx context.Context, dst []Completion) (int, error)
	// Forget ends records. Their space is free once no Read of them is in flight. After it returned
	// no Read begins, neither in this life nor in a later one, except that after a crash a record
	// may be found again that was forgotten after the last Flush. An unknown locator, and one that
	// was forgotten before, is ignored.
	Forget(ctx context.Context, at []Locator) error
	// Scan stores records that can be read in dst, those that were written last first, and returns
	// how many and where to go on. It returns 0 at the end. Each record is as it was written. Records
	// that are written or forgotten meanwhile may be missing, or be there. The caller owns the keys.
	// InvalidParams for an empty dst.
	Scan(ctx context.Context, from Cursor, dst []Found) (n int, next Cursor, err error)
	// Flush returns when all that completed before it survives a crash of the process and of the
	// machine, as far as the storage keeps its promises. Of a tier without CapSurvives it returns at
	// once.
	Flush(ctx context.Context) error
	// Wipe ends all records and raises the generation. It is durable when it returns: no record of an
	// earlier generation is found again. Writes in flight fail.
	Wipe(ctx context.Context) error
	// Stats returns the current counts.
	Stats(ctx context.Context) (Stats, error)
}
