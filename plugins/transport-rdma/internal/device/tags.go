package device

import "sync"

// tagTable finds the queue pair of a result or an event. Safe for concurrent use.
type tagTable struct {
	mu    sync.RWMutex
	slots []tagSlot
	free  []uint32
}

// tagSlot holds a queue pair. generation grows each time the slot is used again, so that a late
// event of an old one finds nothing.
type tagSlot struct {
	pair       *Pair
	generation uint32
}

// add gives p its tag.
func (t *tagTable) add(p *Pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, tagSlot{generation: 1})
	}
	t.slots[i].pair = p
	p.tag = uint64(t.slots[i].generation)<<32 | uint64(i)
}

func (t *tagTable) get(tag uint64) *Pair {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i := uint32(tag)
	if uint64(i) >= uint64(len(t.slots)) || t.slots[i].generation != uint32(tag>>32) {
		return nil
	}
	return t.slots[i].pair
}

// drop takes p out. All its results have been seen.
func (t *tagTable) drop(p *Pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := uint32(p.tag)
	if t.slots[i].pair != p {
		return
	}
	t.slots[i].pair = nil
	t.slots[i].generation++
	t.free = append(t.free, i)
}
