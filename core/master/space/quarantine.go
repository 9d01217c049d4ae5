package space

import (
	"container/heap"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// held is an extent that stays allocated until its time has come.
type held struct {
	segments.Extent
	until lease.Instant
	put   bool // from a put that was given up
	// writer began that put, nil where that is not known. late is until when the extent stays if the
	// writer turns out to be alive.
	writer *segments.Writer
	late   lease.Instant
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
func (p *Pool) HoldPut(e segments.Extent, until lease.Instant) {
	p.HoldWriter(e, nil, until, until)
}

// HoldWriter is HoldPut for a put of a writer, which may have died: if it turns out to be alive
// before (see Recall), the extent stays until late.
func (p *Pool) HoldWriter(e segments.Extent, w *segments.Writer, until, late lease.Instant) {
	unlink(e)
	w.Add(0, int64(e.Size))
	p.push(held{Extent: e, until: until, put: true, writer: w, late: late})
}

// Recall keeps the extents of a writer that seemed to be dead, and is not, until its writes must
// have ended.
func (p *Pool) Recall(writer model.ClientID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.held {
		if h := &p.held[i]; h.writer != nil && h.writer.ID == writer {
			h.until = max(h.until, h.late)
		}
	}
	heap.Init(&p.held)
}

// HoldRead keeps an extent of a removed object until its last reader's lease ends. Call it
// inside the gate, after it has left the table.
func (p *Pool) HoldRead(e segments.Extent, until lease.Instant) {
	unlink(e)
	p.Hold(e, until, false)
}

func unlink(e segments.Extent) {
	if e.Put != 0 {
		e.Seg.Ledger.Unlink(e.Put)
	}
}

// Hold keeps an extent that its ledger has as held already; put is true for that of a put that was given up. Call it
// inside the gate.
func (p *Pool) Hold(e segments.Extent, until lease.Instant, put bool) {
	p.push(held{Extent: e, until: until, put: put})
}

func (p *Pool) push(h held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.held, h)
	p.heldBytes += h.Size
	if h.put {
		p.staging += h.Size
	}
}

// release takes what is due out of the quarantine, with p.mu held.
func (p *Pool) release(now lease.Instant) (due []segments.Extent, puts int) {
	for p.held.due(now) {
		h := heap.Pop(&p.held).(held)
		due = append(due, h.Extent)
		p.heldBytes -= h.Size
		h.writer.Add(0, -int64(h.Size))
		if h.put {
			p.staging -= h.Size
			puts++
		}
	}
	return due, puts
}

// Held calls do for each extent in quarantine. do runs under a lock and must be quick.
func (p *Pool) Held(do func(segments.Extent)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.held {
		do(p.held[i].Extent)
	}
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
