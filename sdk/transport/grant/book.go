package grant

import (
	"crypto/subtle"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxKeys bounds the keys of a book. What a master does with those before is refused.
const maxKeys = 16

// forever is the time of what has no end.
const forever = time.Duration(math.MaxInt64)

// Role is what the node knows of the master for which it makes a key.
type Role struct {
	// Clock is that of the master.
	Clock *Clock
	// Lead says that the master places objects in the segment, not only follows the one that does.
	Lead bool
	// Trusted is until when, by the node's clock, grants count before the first answer of the master: those that it makes meanwhile
	// last as long.
	Trusted time.Duration
}

// Entry is a key in a Book.
type Entry struct {
	Number uint32
	Key    *Key
	Role
	// Reads and Writes are until when grants of each direction count, by the node's clock: what a master promised is
	// kept when another one takes its place, and no more.
	Reads, Writes time.Duration

	mac mac
}

// Book checks the grants of one segment: it implements transport.Grants. Safe for concurrent use.
type Book struct {
	now func() time.Duration

	mu      sync.Mutex // of changes
	changed chan struct{}
	last    uint32
	entries atomic.Pointer[[]*Entry] // by number
}

var _ transport.Grants = (*Book)(nil)

// NewBook returns a book without keys, which refuses everything. now is the clock of the node; it only goes forward.
func NewBook(now func() time.Duration) *Book {
	b := &Book{now: now, changed: make(chan struct{}), last: rand.Uint32() >> 1} // Other numbers than those of the process before.
	b.entries.Store(new([]*Entry))
	return b
}

// Add makes a key for a master, and returns its entry, which the caller does not change. Grants with it count from now on. A key of a
// master that leads takes the place of those of which no master has answered yet.
func (b *Book) Add(r Role) *Entry {
	k := NewKey()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e := &Entry{Number: b.last, Key: k, Role: r, Reads: forever, Writes: forever, mac: newMAC(k.Bytes())}
	entries := slices.DeleteFunc(slices.Clone(b.all()), func(o *Entry) bool {
		_, heard := o.Clock.Latest(0)
		return r.Lead && o.Lead && !heard
	})
	b.keep(append(entries, e))
	return e
}

func (b *Book) all() []*Entry { return *b.entries.Load() }

// keep replaces the entries, without those that are over, and without the oldest ones that are too many, those that end first. The
// caller holds b.mu.
func (b *Book) keep(entries []*Entry) {
	now := b.now()
	entries = slices.DeleteFunc(entries, func(e *Entry) bool { return e.Reads < now && e.Writes < now })
	for len(entries) > maxKeys {
		i := max(0, slices.IndexFunc(entries, func(e *Entry) bool { return e.Reads != forever }))
		entries = slices.Delete(entries, i, i+1)
	}
	b.entries.Store(&entries)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Close bounds until when the grants with the keys that match selects count, by the node's clock. A bound that is there is not extended.
func (b *Book) Close(reads, writes time.Duration, match func(*Entry) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries := slices.Clone(b.all())
	for i, e := range entries {
		if match(e) {
			bounded := *e
			bounded.Reads, bounded.Writes = min(e.Reads, reads), min(e.Writes, writes)
			entries[i] = &bounded
		}
	}
	b.keep(entries)
}

// Keys returns how many keys the book has.
func (b *Book) Keys() int { return len(b.all()) }

// Check implements transport.Grants. It allocates nothing.
func (b *Book) Check(g *transport.Grant, by transport.Subject, kind transport.OpKind, offset, size uint64) transport.Verdict {
	if g == nil {
		return transport.GrantMissing
	}
	claim, number := claimOf(g)
	e := b.find(number)
	if e == nil {
		return transport.GrantOver // Of a key that has ended, or of the process before.
	}
	var tag [tagSize]byte
	e.mac.sum(&tag, (*[claimSize]byte)(g[:]), &by)
	if subtle.ConstantTimeCompare(tag[:], g[claimSize:]) != 1 || !claim.covers(kind, offset, size) {
		return transport.GrantWrong
	}
	now := b.now()
	closed := e.Reads
	if kind == transport.Write {
		closed = e.Writes
	}
	if shown, heard := e.Clock.Latest(now); now >= closed || heard && shown >= claim.Until || !heard && now >= e.Trusted {
		return transport.GrantOver
	}
	return transport.GrantGood
}

func (b *Book) find(number uint32) *Entry {
	for _, e := range b.all() {
		if e.Number == number {
			return e
		}
	}
	return nil
}
