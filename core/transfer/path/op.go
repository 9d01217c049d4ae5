package path

import (
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// remote is one range of the peer's memory that is usable on a path.
type remote struct {
	Addr, Length uint64
	key          string
	Location     string
	id           transport.RemoteID
}

// Op is one read or write of a path. While it is in flight it belongs to the reaper of its path,
// which hands it back through Done.
type Op struct {
	rail.Claim
	Kind          transport.OpKind
	Local         []byte
	Staging       *memory.Buffer // moved instead of local, nil for none
	Addr          uint64         // of the peer's memory
	Remote        remote         // that holds all of it
	Stall         time.Duration  // how long the path may move nothing; 0 where its transport cannot tell
	Hasty, Summed bool
	Grains        transport.Grains
	Grant         *transport.Permit

	Result transport.Completion
	// Done has space for all ops that its receiver has in flight.
	Done  chan<- *Op
	Owner any // whose op it is; opaque to the path
}

// memory is what the transport touches: the caller's memory, or the staging buffer.
func (o *Op) memory() []byte {
	if o.Staging != nil {
		return o.Staging.Bytes()
	}
	return o.Local
}

// end hands the op back, once for each time it was in flight. It never blocks.
func (o *Op) end(c transport.Completion) {
	o.Result = c
	o.Done <- o
}

// slotTable holds the ops in flight on a path. The ID of an op on the transport is its slot's index
// and how often the slot was used, so that a completion that comes twice or too late finds nothing.
type slotTable struct {
	mu    sync.Mutex
	slots []slot
	free  []uint32
}

type slot struct {
	op  *Op
	gen uint32
}

// enter gives an op a slot and returns its ID.
func (t *slotTable) enter(o *Op) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot{})
	}
	t.slots[i].op = o
	t.slots[i].gen++
	return uint64(t.slots[i].gen)<<32 | uint64(i)
}

// leave empties a slot and returns its op, nil when no op in flight has the ID.
func (t *slotTable) leave(id uint64) *Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, gen := uint32(id), uint32(id>>32)
	if int(i) >= len(t.slots) || t.slots[i].gen != gen || t.slots[i].op == nil {
		return nil
	}
	o := t.slots[i].op
	t.slots[i].op = nil
	t.free = append(t.free, i)
	return o
}

// leaveAll empties all slots for good and returns their ops.
func (t *slotTable) leaveAll() []*Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lost []*Op
	for i := range t.slots {
		if o := t.slots[i].op; o != nil {
			t.slots[i].op = nil
			lost = append(lost, o)
		}
	}
	return lost
}

// Carries reports whether an op is in flight that is handed back through done.
func (t *slotTable) Carries(done chan<- *Op) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.slots, func(s slot) bool { return s.op != nil && s.op.Done == done })
}

// busy reports whether something is in flight.
func (t *slotTable) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.free) < len(t.slots)
}
