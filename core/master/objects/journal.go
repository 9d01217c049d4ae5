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

// A shard that holds softEvents asks for a Drain. From hardEvents on it drops accesses,
// which cost rank only; insertions and removals are always kept, and are bounded because
// every caller drains before it goes on.
const (
	softEvents = 128
	hardEvents = 4 * softEvents
)

type journal struct {
	dirty   [Shards / 64]atomic.Uint64
	full    atomic.Bool
	dropped atomic.Uint64
}

// note appends an event in shard i, whose lock is held, and returns its number.
func (t *Table) note(i int, s *shard, e evict.Event) uint64 {
	seq := t.seq.Add(1)
	if len(s.events) >= hardEvents && e.Op == evict.Access {
		t.journal.dropped.Add(1)
		return seq
	}
	s.events = append(s.events, Event{Seq: seq, Event: e})
	if len(s.events) == 1 {
		t.journal.dirty[i/64].Or(1 << (i % 64))
	} else if len(s.events) >= softEvents {
		t.journal.full.Store(true)
	}
	return seq
}

// Full reports that a shard holds many events: call Drain soon.
func (t *Table) Full() bool { return t.journal.full.Load() }

// DroppedAccesses returns how many accesses were not noted because nobody drained.
func (t *Table) DroppedAccesses() uint64 { return t.journal.dropped.Load() }

// Drain appends all events noted so far to dst, in order, and forgets them. Events of
// calls that run at the same time may come with this or the next Drain.
func (t *Table) Drain(dst []Event) []Event {
	t.journal.full.Store(false)
	head := len(dst)
	for w := range t.journal.dirty {
		for set := t.journal.dirty[w].Swap(0); set != 0; set &= set - 1 {
			s := &t.shards[w*64+bits.TrailingZeros64(set)]
			s.mu.Lock()
			dst = append(dst, s.events...)
			if cap(s.events) > hardEvents {
				s.events = nil
			}
			s.events = s.events[:0]
			s.mu.Unlock()
		}
	}
	slices.SortFunc(dst[head:], func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return dst
}
