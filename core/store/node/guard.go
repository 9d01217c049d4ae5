package node

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// guard is the guard of a segment's memory. It counts what it refuses.
type guard struct {
	ledger.Guard
	segment model.SegmentID
	refused *refusals
}

// BeginWrite implements transport.Guard.
func (g *guard) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	id := g.Guard.BeginWrite(offset, size, by)
	if id == 0 {
		g.refused.add(g.segment, offset, size)
	}
	return id
}

// refusals counts the writes that guards refused. The node logs them from time to time, since a guard must not block.
type refusals struct {
	total prometheus.Counter

	mu      sync.Mutex
	count   int // since the last report
	segment model.SegmentID
	offset  uint64
	size    uint64
}

func (r *refusals) add(segment model.SegmentID, offset, size uint64) {
	r.total.Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.segment, r.offset, r.size = segment, offset, size
}

// report logs how many writes were refused since the last report, if there were any.
func (r *refusals) report(d session.Deps) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count > 0 {
		d.Log.Warn("writes of peers were refused: no unfinished put has that memory, so they came too late or from a stranger",
			"writes", r.count, "segment", r.segment.String(), "last_offset", r.offset, "last_size", r.size)
	}
	r.count = 0
}
