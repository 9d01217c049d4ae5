package objects

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Event is an event for the policy with its number in the order of happening.
type Event struct {
	Seq uint64
	evict.Event
}

// A shard that holds softEvents requests a Drain. From hardEvents on it drops accesses, which only
// affect ranks. It always keeps insertions and removals. Their number is bounded because every
// caller drains before it continues.
const (
	softEvents = 128
	hardEvents = 4 * softEvents
)

type eventLog struct {
	dirty   [Shards / 64]atomic.Uint64
	full    atomic.Bool
	dropped atomic.Uint64
}

// note appends an event in shard i and returns its number. The caller holds the lock of the shard.
func (t *Table) note(i int, s *shard, e evict.Event) uint64 {
	seq := t.seq.Add(1)
	if len(s.events) >= hardEvents && e.Op == evict.Access {
		t.events.dropped.Add(1)
		return seq
	}
	s.events = append(s.events, Event{Seq: seq, Event: e})
	if len(s.events) == 1 {
		t.events.dirty[i/64].Or(1 << (i % 64))
	} else if len(s.events) >= softEvents {
		t.events.full.Store(true)
	}
	return seq
}

// Noted returns the number of the last event, whether it was kept or dropped.
func (t *Table) Noted() uint64 { return t.seq.Load() }

// Full reports that a shard holds many events: call Drain soon.
func (t *Table) Full() bool { return t.events.full.Load() }

// DroppedAccesses returns how many accesses were not noted because the event log was not drained.
func (t *Table) DroppedAccesses() uint64 { return t.events.dropped.Load() }

// DrainBuffer is memory that Drain reuses. The zero value is ready to use.
type DrainBuffer struct{ raw, ordered, later []Event }

// maxBuffered is the most events for which a buffer keeps its memory.
const maxBuffered = 2 * Shards * softEvents

// Drain returns all events noted so far, in order, and forgets them. Events of concurrent calls are
// in the result of this or of the next Drain, in the order in which these calls ended. The result is
// valid until the next Drain with the same buffer, which must be the same for every Drain.
func (t *Table) Drain(b *DrainBuffer) []Event {
	t.events.full.Store(false)
	if cap(b.raw) > maxBuffered {
		*b = DrainBuffer{later: b.later}
	}
	// An event after last may follow one that Drain misses, in a shard that it has passed.
	last := t.seq.Load()
	b.raw, b.later = append(b.raw[:0], b.later...), b.later[:0]
	for w := range t.events.dirty {
		for set := t.events.dirty[w].Swap(0); set != 0; set &= set - 1 {
			s := &t.shards[w*64+bits.TrailingZeros64(set)]
			s.mu.Lock()
			for _, e := range s.events {
				if e.Seq > last {
					b.later = append(b.later, e)
				} else {
					b.raw = append(b.raw, e)
				}
			}
			if cap(s.events) > hardEvents {
				s.events = nil
			}
			s.events = s.events[:0]
			s.mu.Unlock()
		}
	}
	return b.order()
}

// keptEvents is the number of events for which an idle shard keeps space, so that occasional
// calls allocate nothing.
const keptEvents = 16

// Shrink frees the memory to which a burst of events made the event log and b grow, tens of MB at
// their bounds. Call it when there have been no events for a while. It loses no event, and ends the
// validity of the result of the last Drain with b.
func (t *Table) Shrink(b *DrainBuffer) {
	*b = DrainBuffer{later: slices.Clip(b.later)}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if len(s.events) == 0 && cap(s.events) > keptEvents {
			s.events = nil
		}
		s.mu.Unlock()
	}
}

// order sorts the collected events. Their numbers have almost no gaps, so that order can put each
// event in its place directly.
func (b *DrainBuffer) order() []Event {
	if len(b.raw) == 0 {
		return nil
	}
	lo, hi := b.raw[0].Seq, b.raw[0].Seq
	for i := range b.raw {
		lo, hi = min(lo, b.raw[i].Seq), max(hi, b.raw[i].Seq)
	}
	span := hi - lo + 1
	if span > 4*uint64(len(b.raw)) {
		slices.SortFunc(b.raw, func(x, y Event) int { return cmp.Compare(x.Seq, y.Seq) })
		return b.raw
	}
	b.ordered = slices.Grow(b.ordered[:0], int(span))[:span]
	clear(b.ordered)
	for i := range b.raw {
		b.ordered[b.raw[i].Seq-lo] = b.raw[i]
	}
	out := b.ordered[:0]
	for i := range b.ordered {
		if b.ordered[i].Seq != 0 {
			out = append(out, b.ordered[i])
		}
	}
	return out
}
