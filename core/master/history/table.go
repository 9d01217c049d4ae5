// Package history remembers what became of keys that are gone, so that the master can say
// why a key is not there: evicted, removed, lost with its node, given up by its writer.
//
// It is a log of the last keys that went, found by their fingerprints. The oldest entry
// makes space for the newest, so what it remembers reaches back a while that depends on how
// fast keys go, and Oldest says how far. Two keys with the same 64-bit fingerprint are one
// to it.
package history

import (
	"math/bits"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
)

// Gone is what is kept of a key that went.
type Gone struct {
	Reason Reason
	// Size is what it held in bytes, kept up to 256 TiB.
	Size uint64
	// Idle is how long no client had read the object, in whole seconds, kept up to 194 days. It
	// is 0 where that is not known.
	Idle time.Duration
}

// Entry is a key that went, and when, to the microsecond.
type Entry struct {
	Gone
	When lease.Instant
}

// Table remembers the last keys that went. It is safe for concurrent use: keys with
// different fingerprints seldom wait for each other. A nil Table is off.
type Table struct {
	shift   uint // the top bits of a fingerprint choose the stripe
	stripes []stripe
}

// A table is cut into stripes so that removals on many shards at once do not meet in one
// lock; a small one has a single stripe, which keeps what it remembers exact.
const (
	maxStripes    = 16
	stripeEntries = 4096
)

// New returns a table that remembers at least that many keys, in 32 bytes each, which it
// takes as they go; nil for 0 or less.
func New(entries int) *Table {
	if entries <= 0 {
		return nil
	}
	n := 1
	for n < maxStripes && entries/n > stripeEntries {
		n *= 2
	}
	t := &Table{shift: uint(64 - bits.Len(uint(n)-1)), stripes: make([]stripe, n)}
	for i := range t.stripes {
		t.stripes[i].limit = uint32((entries + n - 1) / n)
	}
	return t
}

// Record remembers that the key with this fingerprint went now. Beside the growth to the
// table's size it allocates nothing.
func (t *Table) Record(fingerprint uint64, g Gone, now lease.Instant) {
	if t == nil {
		return
	}
	t.stripe(fingerprint).record(pack(fingerprint, g, now))
}

// Look returns how the key with this fingerprint went last. False means that it did not go
// since Oldest.
func (t *Table) Look(fingerprint uint64) (Entry, bool) {
	if t == nil {
		return Entry{}, false
	}
	r, ok := t.stripe(fingerprint).look(fingerprint)
	if !ok {
		return Entry{}, false
	}
	return r.entry(), true
}

// Oldest returns the moment since which every key that went is remembered: 0, the start of
// the master, as long as nothing had to be forgotten. A few that went before are remembered
// as well. It is as exact as the order in which concurrent callers took now and got here.
// Meaningless for a nil table.
func (t *Table) Oldest() lease.Instant {
	if t == nil {
		return 0
	}
	var oldest lease.Instant
	for i := range t.stripes {
		oldest = max(oldest, t.stripes[i].oldest())
	}
	return oldest
}

// Len returns how many keys are remembered, each as often as it went.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	n := 0
	for i := range t.stripes {
		n += t.stripes[i].len()
	}
	return n
}

func (t *Table) stripe(fingerprint uint64) *stripe { return &t.stripes[fingerprint>>t.shift] }

// stripe is a ring of records. Records of keys that share a bucket form a chain from the
// newest to the oldest; a chain ends where its next link is older than the ring.
type stripe struct {
	mu     sync.Mutex
	limit  uint32
	total  uint64     // records ever, and so the number of the next one
	chunks [][]record // the ring, in pieces of chunkSize
	heads  []uint32   // per bucket the link to its newest record
	_      [56]byte   // keeps the locks of two stripes apart
}

// chunkSize is how many records the ring grows by.
const chunkSize = 1024

func (s *stripe) record(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heads == nil {
		s.heads = make([]uint32, s.limit)
	}
	at := uint32(s.total % uint64(s.limit))
	if int(at/chunkSize) == len(s.chunks) {
		s.chunks = append(s.chunks, make([]record, min(chunkSize, s.limit-at)))
	}
	head := &s.heads[s.bucket(r.fingerprint())]
	r.prev = *head
	*s.at(s.total) = r
	s.total++
	*head = uint32(s.total)
}

// look walks a chain. A link is the number of a record plus one in 32 bits, which wrap around. So
// a link that was not changed for 2^32 records may point at a record of another bucket. That does
// no harm: fingerprints are compared, and the walk only goes back in time.
func (s *stripe) look(fingerprint uint64) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heads == nil {
		return record{}, false
	}
	link, back := s.heads[s.bucket(fingerprint)], int64(-1)
	for {
		age := int64(uint32(s.total) - link) // 0 is the newest record
		if age <= back || age >= int64(s.limit) || uint64(age) >= s.total {
			return record{}, false
		}
		r := s.at(s.total - 1 - uint64(age))
		if r.fingerprint() == fingerprint {
			return *r, true
		}
		link, back = r.prev, age
	}
}

// oldest is just after the oldest record, or 0 while none was overwritten.
func (s *stripe) oldest() lease.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total <= uint64(s.limit) {
		return 0
	}
	return s.at(s.total).entry().When.Add(time.Microsecond)
}

func (s *stripe) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(min(s.total, uint64(s.limit)))
}

func (s *stripe) at(number uint64) *record {
	at := number % uint64(s.limit)
	return &s.chunks[at/chunkSize][at%chunkSize]
}

func (s *stripe) bucket(fingerprint uint64) uint32 {
	// The low bits: the high ones are the same in all of a stripe.
	return uint32((fingerprint & 0xffffffff) * uint64(s.limit) >> 32)
}

// record is an Entry in 28 bytes; with its share of the heads that makes 32.
type record struct {
	fpLow, fpHigh uint32
	prev          uint32 // link to the next older record of the bucket
	whenLow       uint32 // microseconds, 48 bits: almost nine years
	sizeLow       uint32 // bytes, 48 bits
	whenSizeHigh  uint32 // the upper 16 bits of when, then those of size
	idleReason    uint32 // seconds, 24 bits; the reason, 8 bits
}

const (
	most48 = 1<<48 - 1
	most24 = 1<<24 - 1
)

func pack(fingerprint uint64, g Gone, now lease.Instant) record {
	when := min(uint64(max(now, 0))/uint64(time.Microsecond), most48)
	size := min(g.Size, most48)
	idle := min(uint64(max(g.Idle, 0)/time.Second), most24)
	return record{
		fpLow: uint32(fingerprint), fpHigh: uint32(fingerprint >> 32),
		whenLow: uint32(when), sizeLow: uint32(size),
		whenSizeHigh: uint32(when>>32)<<16 | uint32(size>>32),
		idleReason:   uint32(idle)<<8 | uint32(g.Reason),
	}
}

func (r *record) fingerprint() uint64 { return uint64(r.fpHigh)<<32 | uint64(r.fpLow) }

func (r *record) entry() Entry {
	when := uint64(r.whenSizeHigh>>16)<<32 | uint64(r.whenLow)
	return Entry{
		When: lease.Instant(when) * lease.Instant(time.Microsecond),
		Gone: Gone{
			Reason: Reason(r.idleReason), //nolint:gosec // the low eight bits are meant
			Size:   uint64(r.whenSizeHigh&0xffff)<<32 | uint64(r.sizeLow),
			Idle:   time.Duration(r.idleReason>>8) * time.Second,
		},
	}
}
