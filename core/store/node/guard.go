package node

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// strayGrace is how long a write into memory of a put that is gone may go on before it is cut.
	strayGrace = 100 * time.Millisecond
	// strayTimeout bounds the wait for such writes, before the node goes on without the acknowledgement.
	strayTimeout = time.Second
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

// settle returns when no write is in progress into memory of the segment that its ledger calls free.
func (n *Node) settle(ctx context.Context, s *segment) error {
	ctx, cancel := context.WithTimeout(ctx, strayTimeout)
	defer cancel()
	return errs.Wrap(errs.UnavailableInCurrentStatus, "store node: segment "+s.ID.String(), s.guard.Settle(ctx, strayGrace))
}

// acknowledge lets the master know that the ledger of a segment has a batch, once nobody writes any more where the
// batch says that memory is free. Otherwise the master sends the batch again.
func (n *Node) acknowledge(ctx context.Context, s *segment, l *ledger.Log, seq ledger.Seq) {
	if err := n.settle(ctx, s); err != nil {
		if ctx.Err() == nil {
			n.deps.Log.Error("a batch for a ledger is not acknowledged: a transport does not let go of memory that is to be used again", "error", err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.ledger == l {
		s.acked = max(s.acked, seq)
	}
}
