package space

import (
	"container/heap"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
)

// held is an extent that stays allocated until its time has come.
type held struct {
	segments.Extent
	until lease.Instant
	put   bool // from a put that was given up
}

// quarantine is a heap, soonest end first. It needs no bound of its own: every entry
// occupies memory of the pool.
type quarantine []held

func (q quarantine) Len() int           { return len(q) }
func (q quarantine) Less(i, j int) bool { return q[i].until < q[j].until }
func (q quarantine) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *quarantine) Push(x any) { *q = append(*q, x.(held)) }

// Pop implements heap.Interface.
func (q *quarantine) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (q quarantine) due(now lease.Instant) bool { return len(q) > 0 && q[0].until <= now }

// HoldPut keeps an extent of a put that was given up until its writer is surely done.
// Call it inside the gate, after it has left the table.
func (p *Pool) HoldPut(e segments.Extent, until lease.Instant) { p.hold(e, until, true) }

// HoldRead keeps an extent of a removed object until its last reader's lease ends. Call it
// inside the gate, after it has left the table.
func (p *Pool) HoldRead(e segments.Extent, until lease.Instant) { p.hold(e, until, false) }

func (p *Pool) hold(e segments.Extent, until lease.Instant, put bool) {
	if e.Put != 0 {
		e.Seg.Ledger.Unlink(e.Put)
	}
	p.Hold(e, until, put)
}

// Hold keeps an extent that its ledger has as held already; put is true for that of a put that was given up. Call it
// inside the gate.
func (p *Pool) Hold(e segments.Extent, until lease.Instant, put bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.held, held{Extent: e, until: until, put: put})
	p.heldBytes += e.Size
	if put {
		p.staging += e.Size
	}
}

// release takes what is due out of the quarantine, with p.mu held.
func (p *Pool) release(now lease.Instant) (due []segments.Extent, puts int) {
	for p.held.due(now) {
		h := heap.Pop(&p.held).(held)
		due = append(due, h.Extent)
		p.heldBytes -= h.Size
		if h.put {
			p.staging -= h.Size
			puts++
		}
	}
	return due, puts
}

// StagingBytes returns what discarded puts still occupy.
func (p *Pool) StagingBytes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.staging
}

// HeldBytes returns what the quarantine occupies in all.
func (p *Pool) HeldBytes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldBytes
}
