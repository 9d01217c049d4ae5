package put

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxEnds is how many ends of puts a writer remembers, and maxEndGrains up to how many checksums of grains with one: more
// than a master answers in the milliseconds before its ledgers have them.
const maxEnds, maxEndGrains = 4096, 64

// endPause is the pause before the ends are repeated that a new master did not know yet.
const endPause = 200 * time.Millisecond

// ends are the last ends of puts that a master answered. Those of the last milliseconds are lost with a master that is
// killed, so the writer repeats them at the next one.
type ends struct {
	mu   sync.Mutex
	ring []model.EndItem
	next int // where the next one goes in a full ring
	// grains is memory for those of the next ones, so that a put allocates nothing as a rule.
	grains []uint32
}

func (e *ends) add(it *model.EndItem) {
	kept := *it
	if len(kept.Grains) > maxEndGrains {
		return // A large object, of which few can be lost.
	}
	if len(kept.Grains) > 0 {
		if cap(e.grains)-len(e.grains) < len(kept.Grains) {
			e.grains = make([]uint32, 0, 64*maxEndGrains)
		}
		at := len(e.grains)
		e.grains = append(e.grains, kept.Grains...)
		kept.Grains = e.grains[at:len(e.grains):len(e.grains)]
	}
	if len(e.ring) < maxEnds {
		e.ring = append(e.ring, kept)
		return
	}
	e.ring[e.next] = kept
	e.next = (e.next + 1) % maxEnds
}

// before takes those out that masters of earlier epochs answered.
func (e *ends) before(epoch uint64) (out []model.EndItem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var rest []model.EndItem
	for _, it := range slices.Concat(e.ring[e.next:], e.ring[:e.next]) {
		if model.PutEpoch(it.Put) < epoch {
			out = append(out, it)
		} else {
			rest = append(rest, it)
		}
	}
	e.ring, e.next = rest, 0
	return out
}

// repeatEnds ends, at a master that has come, the puts that masters before it had ended last. To end a put twice is a
// success. The master may not have read all ledgers yet, so that those that it does not know are repeated for a while; they
// are gone when they were removed or evicted, or another value took their place.
func (w *Writer) repeatEnds(ctx context.Context, epoch uint64) {
	if w.Calls.Enter("store") != nil {
		return
	}
	defer w.Calls.Leave()
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for left := w.ends.before(epoch); ; {
		var again []model.EndItem
		base.InBatches(len(left), w.Config.MaxBatch, func(lo, hi int) { again = append(again, w.repeat(ctx, left[lo:hi])...) })
		if left = again; len(left) == 0 {
			return
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return
		}
	}
}

// repeat ends puts and returns those that the master does not know.
func (w *Writer) repeat(ctx context.Context, items []model.EndItem) (again []model.EndItem) {
	got, err := session.Ask(ctx, w.Session, "BatchPutEnd", func(ctx context.Context) ([]error, error) {
		return w.Master.PutEnd(ctx, w.Caller, items, nil)
	})
	if base.Complete(err, len(got), len(items)) != nil {
		if errors.Is(err, errs.ErrForeign) {
			return nil
		}
		return items
	}
	for i, e := range got {
		if errs.Is(e, errs.ObjectNotFound) {
			again = append(again, items[i])
		}
	}
	return again
}
