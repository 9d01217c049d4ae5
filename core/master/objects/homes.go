package objects

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/master/segments"
)

// homes gives the segments in which objects lie small numbers, so that a record needs no pointer. Number 0 is no segment.
type homes struct {
	mu      sync.RWMutex
	numbers map[*segments.Segment]uint32
	free    []uint32
	// list is replaced with every change, so that at needs no lock.
	list atomic.Pointer[[]*home]
}

// home is a segment with the number of records that name it.
type home struct {
	seg     *segments.Segment
	records atomic.Int64
}

func newHomes() *homes {
	h := &homes{numbers: map[*segments.Segment]uint32{}}
	h.list.Store(&[]*home{{}})
	return h
}

// at returns the segment of a number that a record has.
func (h *homes) at(number uint32) *segments.Segment { return (*h.list.Load())[number].seg }

// enter returns the number of a segment for one more record.
func (h *homes) enter(seg *segments.Segment) uint32 {
	if seg == nil {
		return 0
	}
	h.mu.RLock()
	n, ok := h.numbers[seg]
	if ok {
		(*h.list.Load())[n].records.Add(1)
	}
	h.mu.RUnlock()
	if !ok {
		n = h.number(seg)
	}
	return n
}

// number is enter of a segment that may have no number.
func (h *homes) number(seg *segments.Segment) uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.numbers[seg]
	if ok {
		(*h.list.Load())[n].records.Add(1)
		return n
	}
	list := slices.Clone(*h.list.Load())
	if last := len(h.free); last > 0 {
		n, h.free = h.free[last-1], h.free[:last-1]
	} else {
		n, list = uint32(len(list)), append(list, nil)
	}
	list[n] = &home{seg: seg}
	list[n].records.Add(1)
	h.numbers[seg] = n
	h.list.Store(&list)
	return n
}

// leave says that a record does not name a segment any more.
func (h *homes) leave(number uint32) {
	if number != 0 {
		(*h.list.Load())[number].records.Add(-1)
	}
}

// trim forgets the segments that are unmounted and that no record names.
func (h *homes) trim() {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(*h.list.Load())
	for seg, n := range h.numbers {
		if !seg.Alive() && list[n].records.Load() == 0 {
			delete(h.numbers, seg)
			list[n] = nil
			h.free = append(h.free, n)
		}
	}
	h.list.Store(&list)
}

// besides holds what some objects of a shard have beside their records, by numbers from 1.
type besides struct {
	all  []*beside
	free []uint32
}

// at returns what has a number, nil for 0.
func (b *besides) at(number uint32) *beside {
	if number == 0 {
		return nil
	}
	return b.all[number-1]
}

func (b *besides) add(x beside) uint32 {
	if last := len(b.free); last > 0 {
		n := b.free[last-1]
		b.free, b.all[n-1] = b.free[:last-1], &x
		return n
	}
	b.all = append(b.all, &x)
	return uint32(len(b.all))
}

// remove frees a number; 0 is none.
func (b *besides) remove(number uint32) {
	if number != 0 {
		b.all[number-1] = nil
		b.free = append(b.free, number)
	}
}
