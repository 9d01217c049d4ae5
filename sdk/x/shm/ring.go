package shm

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// ErrCorrupt means that the other process wrote an index that cannot be right. The ring can no
// longer be used.
var ErrCorrupt = errors.New("the ring is corrupt")

// The layout of a ring, version 1. All numbers are in the byte order of the machine. The two
// indices count entries since the start and wrap around at 2^64. Entry i is at ringHeader + i mod n
// * size. Each field has a pair of cache lines of its own.
const (
	offTail    = 0   // uint64: written by the producer, after the entries
	offHead    = 128 // uint64: written by the consumer, after it copied the entries
	offWaiting = 256 // uint32: 1 while the consumer sleeps or is about to, then 0
	ringHeader = 384
)

const (
	// MaxEntries is the most entries of a ring.
	MaxEntries = 1 << 16
	// MaxEntrySize is the largest entry in bytes.
	MaxEntrySize = 4 << 10
)

// Layout is the shape of a ring. The process that makes the ring chooses it, and the other process
// learns it from that process, never from the shared memory.
type Layout struct {
	// Entries is the number of entries, a power of two up to MaxEntries.
	Entries int
	// EntrySize is the size of an entry in bytes, a multiple of 8 up to MaxEntrySize.
	EntrySize int
}

// Validate returns an error if no ring can have this layout.
func (l Layout) Validate() error {
	if l.Entries < 1 || l.Entries > MaxEntries || bits.OnesCount(uint(l.Entries)) != 1 {
		return fmt.Errorf("a ring of %d entries, want a power of two up to %d", l.Entries, MaxEntries)
	}
	if l.EntrySize < 8 || l.EntrySize > MaxEntrySize || l.EntrySize%8 != 0 {
		return fmt.Errorf("ring entries of %d bytes, want a multiple of 8 up to %d", l.EntrySize, MaxEntrySize)
	}
	return nil
}

// Bytes returns the size of a ring in memory, a multiple of 128.
func (l Layout) Bytes() int { return (ringHeader + l.Entries*l.EntrySize + 127) &^ 127 }

// ring is the state that both ends have.
type ring struct {
	Layout
	entries []byte
	tail    *atomic.Uint64
	head    *atomic.Uint64
	waiting *atomic.Uint32
	bell    Bell
}

func newRing(mem []byte, l Layout, b Bell) (ring, error) {
	if err := l.Validate(); err != nil {
		return ring{}, err
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if len(mem) < l.Bytes() || base%128 != 0 {
		return ring{}, fmt.Errorf("%d bytes at %#x for a ring that takes %d, aligned to 128", len(mem), base, l.Bytes())
	}
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&mem[off]) }
	return ring{
		Layout: l, entries: mem[ringHeader : ringHeader+l.Entries*l.EntrySize : ringHeader+l.Entries*l.EntrySize], bell: b,
		tail: (*atomic.Uint64)(at(offTail)), head: (*atomic.Uint64)(at(offHead)), waiting: (*atomic.Uint32)(at(offWaiting)),
	}, nil
}

// slot returns the memory of entry i.
func (r *ring) slot(i uint64) []byte {
	at := int(i&uint64(r.Entries-1)) * r.EntrySize
	return r.entries[at : at+r.EntrySize : at+r.EntrySize]
}

// Producer writes into a ring. Like a Consumer it is for one goroutine at a time.
type Producer struct {
	ring
	next      uint64 // the entry to write next
	published uint64
	freed     uint64 // the last index that the consumer published
}

// NewProducer makes the writing end of a ring in mem, which must be all zero when the first of the
// two ends is made.
func NewProducer(mem []byte, l Layout, b Bell) (*Producer, error) {
	r, err := newRing(mem, l, b)
	if err != nil {
		return nil, err
	}
	return &Producer{ring: r}, nil
}

// Free returns how many entries can be put. It returns ErrCorrupt if the consumer claims to have
// read entries that were not written.
func (p *Producer) Free() (int, error) {
	head := p.head.Load()
	if head-p.freed > p.published-p.freed {
		return 0, fmt.Errorf("%w: its reader is at entry %d, between %d and %d is possible", ErrCorrupt, head, p.freed, p.published)
	}
	p.freed = head
	return p.Entries - int(p.next-head), nil
}

// Written returns the index of the entry to put next. The first entry of all has index 0.
func (p *Producer) Written() uint64 { return p.next }

// Consumed returns the index of the first entry that the other side does not claim to have read.
// Its errors are those of Free.
func (p *Producer) Consumed() (uint64, error) {
	_, err := p.Free()
	return p.freed, err
}

// Put writes an entry, which the other side sees after Publish. If entry is shorter than EntrySize,
// the remaining bytes of the slot keep their old values. The caller knows from Free that the ring
// is not full.
func (p *Producer) Put(entry []byte) {
	copy(p.slot(p.next), entry)
	p.next++
}

// Publish makes the entries that were put visible to the other side, and wakes it if it sleeps.
func (p *Producer) Publish() error {
	if p.next == p.published {
		return nil
	}
	p.published = p.next
	p.tail.Store(p.next)
	if p.waiting.Load() != 0 && p.waiting.CompareAndSwap(1, 0) {
		return p.bell.Ring(p.waiting)
	}
	return nil
}

// Consumer reads from a ring.
type Consumer struct {
	ring
	next uint64 // the entry to read next
	seen uint64 // the last index that the producer published
	spin int
}

// NewConsumer makes the reading end of a ring. It polls spins times for an entry before it sleeps;
// 0 is right if processor cores are scarce.
func NewConsumer(mem []byte, l Layout, b Bell, spins int) (*Consumer, error) {
	r, err := newRing(mem, l, b)
	if err != nil {
		return nil, err
	}
	return &Consumer{ring: r, spin: spins}, nil
}

// Ready returns how many entries can be read. It returns ErrCorrupt if the producer claims more
// than the ring holds or moves its index back.
func (c *Consumer) Ready() (int, error) {
	tail := c.tail.Load()
	if tail-c.next > uint64(c.Entries) || tail-c.next < c.seen-c.next {
		return 0, fmt.Errorf("%w: its writer is at entry %d, between %d and %d is possible", ErrCorrupt, tail, c.seen, c.next+uint64(c.Entries))
	}
	c.seen = tail
	return int(tail - c.next), nil
}

// Copy copies the i-th entry that can be read, counted from 0, to dst. The caller knows from Ready
// that the entry exists. Callers check the copy, because the other side can change the original at
// any time.
func (c *Consumer) Copy(i int, dst []byte) int { return copy(dst, c.slot(c.next+uint64(i))) }

// Free returns the first n entries to the producer.
func (c *Consumer) Free(n int) {
	c.next += uint64(n)
	c.head.Store(c.next)
}

// Wait waits until entries can be read and returns their number. Its error is that of the context
// or of the bell, or ErrCorrupt.
func (c *Consumer) Wait(ctx context.Context) (int, error) {
	for i := 0; ; i++ {
		n, err := c.Ready()
		if n > 0 || err != nil {
			return n, err
		}
		if i < c.spin {
			continue
		}
		if err := c.Sleep(ctx); err != nil {
			return 0, err
		}
	}
}

// Sleep waits until there may be an entry to read, or until the bell rings for another reason,
// which a caller of Wait would not notice. Its errors are those of Wait.
func (c *Consumer) Sleep(ctx context.Context) error {
	c.waiting.Store(1)
	// Ready sees what the other side published before it could see the 1.
	n, err := c.Ready()
	if n == 0 && err == nil {
		err = c.bell.Wait(ctx, c.waiting)
	}
	c.waiting.Store(0)
	return err
}
