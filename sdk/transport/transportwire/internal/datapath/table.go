package datapath

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// slot is one operation in flight, or one chunk of an operation on foreign memory. Only the host's
// memory holds it.
type slot struct {
	generation uint32
	used       bool
	kind       transport.OpKind
	id         uint64
	length     int
	// local keeps the memory alive that the plugin uses.
	local []byte
	// seq is the index of its entry in the ring.
	seq uint64
	// due is when the watchdog considers it overdue, on the path's clock.
	due time.Duration
	// of is the operation of which this is a chunk, nil for a whole operation.
	of    *foreignOp
	stage extent
}

// table hands out slots.
type table struct {
	slots []slot
	free  []uint32
}

func newTable(n int) table {
	t := table{slots: make([]slot, n), free: make([]uint32, n)}
	for i := range t.free {
		t.free[i] = uint32(n - 1 - i)
		t.slots[i].generation = 1
	}
	return t
}

func (t *table) inUse() int { return len(t.slots) - len(t.free) }

// take takes a free slot. The caller knows that there is one.
func (t *table) take() (uint32, *slot) {
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[i]
	s.used = true
	return i, s
}

// find returns the slot that a tag from the plugin names.
func (t *table) find(g tag) (*slot, error) {
	i := g.slot()
	if uint64(i) >= uint64(len(t.slots)) {
		return nil, fmt.Errorf("a completion names operation %d of %d", i, len(t.slots))
	}
	s := &t.slots[i]
	switch {
	case !s.used:
		return nil, fmt.Errorf("operation %d completed, but is not in flight", i)
	case s.generation != g.generation():
		return nil, fmt.Errorf("operation %d completed with generation %d, but its generation is %d", i, g.generation(), s.generation)
	}
	return s, nil
}

// release frees a slot. Its tag is valid again only after 2^32 other uses.
func (t *table) release(i uint32) {
	s := &t.slots[i]
	*s = slot{generation: s.generation + 1}
	t.free = append(t.free, i)
}
