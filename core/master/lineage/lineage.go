// Package lineage remembers which page comes before a key that is not stored yet.
//
// A page of a prompt is useful only with the pages before it, and an eviction policy ranks better
// if it knows them. The order of the keys in a look-up shows it: in a partly cached prompt, the
// first absent key follows a present one. The look-up notes that, and the put of the key, a moment
// later, takes the note.
//
// The table is bounded and forgets: two keys in one slot overwrite each other. That loses a hint,
// but never produces a wrong one.
package lineage

import (
	"math/bits"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// DefaultEntries is enough for the keys that were looked up and not yet put, at 16 bytes each: a
// key is noted once for each prompt, and put within seconds.
const DefaultEntries = 1 << 16

// Table maps fingerprints of absent keys to the object before them. It is safe for
// concurrent use, takes no lock and allocates nothing after New. A nil Table is off.
type Table struct {
	mask  uint64
	slots []slot
}

// slot holds a pair in two words that are written one after the other. seal is child XOR parent, so
// that a reader of halves of two different pairs detects that they do not match its key.
type slot struct{ seal, parent atomic.Uint64 }

// New returns a table of at least that many entries, rounded up to a power of two; nil for 0 or
// less.
func New(entries int) *Table {
	if entries <= 0 {
		return nil
	}
	n := uint64(1) << bits.Len64(uint64(entries)-1)
	return &Table{mask: n - 1, slots: make([]slot, n)}
}

// Note remembers that parent comes before the key with fingerprint child. It does nothing if parent
// or child is 0.
func (t *Table) Note(child uint64, parent evict.ID) {
	if t == nil || parent == 0 || child == 0 {
		return
	}
	s := &t.slots[child&t.mask]
	s.parent.Store(uint64(parent))
	s.seal.Store(child ^ uint64(parent))
}

// Learn records a look-up: the fingerprints of its keys in order, and for each the stored object or
// 0. It notes each absent key whose predecessor is present. Only the common length of both slices
// counts.
func (t *Table) Learn(fingerprints []uint64, present []evict.ID) {
	if t == nil {
		return
	}
	for i := 1; i < min(len(fingerprints), len(present)); i++ {
		if present[i] == 0 {
			t.Note(fingerprints[i], present[i-1])
		}
	}
}

// Take returns the object before the key with fingerprint child and forgets it; 0 if it is not
// known. The object may have been removed by now.
func (t *Table) Take(child uint64) evict.ID {
	if t == nil || child == 0 {
		return 0
	}
	s := &t.slots[child&t.mask]
	seal, parent := s.seal.Load(), s.parent.Load()
	// A slot whose seal equals its parent would belong to key 0, which no caller uses: the slot
	// is empty.
	if seal^parent != child || parent == 0 || !s.seal.CompareAndSwap(seal, parent) {
		return 0
	}
	return evict.ID(parent)
}
