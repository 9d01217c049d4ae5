package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errNotRenewed is why a lease ran out that nothing is known to be wrong with.
var errNotRenewed = errors.New("it was not renewed in time")

// GetSessionRanges reads pieces of objects that sessions are open for straight into the
// memory given, without asking the master, and answers per key how many bytes they are
// together. One piece that fails fails its key; no key spoils another. The same key may come
// more than once.
//
// InvalidParams: no session is open, or a piece goes beyond the object. LeaseExpired: the
// bytes may not be the object's any more, since the master could not be reached for too
// long, or has another value by now. Else as GetInto. Pieces that are all of the object, in
// order, are checked; for others the lease alone says that they are the object's. Only what
// is found damaged that way is told to the master. The hot cache is left out.
func (l *Layers) GetSessionRanges(ctx context.Context, reads []RangeRead) []model.Result[int] {
	c := l.c
	defer observe(c.metrics.batchGet, time.Now())
	out := make([]model.Result[int], len(reads))
	if err := c.enter(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer c.calls.Done()
	t0, items := time.Now(), make([]readItem, len(reads))
	todo := make([]*readItem, len(reads))
	for i := range reads {
		it := &items[i]
		it.key, it.ranges, it.cold = reads[i].Key, true, true
		it.check = func(size uint64) (spans []span) {
			spans, it.err = within(&reads[i], size)
			return spans
		}
		todo[i] = it
	}
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) { l.read(ctx, todo[lo:hi]) })
	bytes := 0
	for i := range items {
		if out[i].Err = items[i].err; out[i].Err == nil {
			for _, s := range items[i].spans {
				out[i].Value += len(s.mem)
			}
			bytes += out[i].Value
		}
	}
	c.metrics.reads.done("batch_get_into_multi_buffer_ranges", uint64(bytes), t0)
	return out
}

// within returns the pieces of a read that is inside of an object as a whole.
func within(r *RangeRead, size uint64) ([]span, error) {
	spans := make([]span, 0, len(r.Ranges))
	for _, g := range r.Ranges {
		n := uint64(len(g.Dst))
		if g.Offset > size || n > size-g.Offset {
			return nil, errs.New(errs.InvalidParams, "store: get "+quote(r.Key), "the object has %d bytes, %d from %d on go beyond", size, n, g.Offset)
		}
		if n > 0 {
			spans = append(spans, span{g.Offset, g.Dst})
		}
	}
	return spans, nil
}

// read takes items through transfer and checks. Those that outlived what was known of their
// lease start again with what is known by then, a bounded number of times.
func (l *Layers) read(ctx context.Context, items []*readItem) {
	c := l.c
	defer c.dropDamaged(ctx, items)
	r := c.reading(0)
	defer c.doneReading(r)
	for round := 0; len(items) > 0; round++ {
		late := c.fetch(ctx, r, l.aim(items))
		c.metrics.expired.Add(float64(len(late)))
		if round == c.cfg.ReadRetries || ctx.Err() != nil {
			for _, it := range late {
				it.err = lapsed(it.key, errNotRenewed)
			}
			return
		}
		items = late
	}
}

// aim points items at the copies that their sessions know of and returns those that there is
// something to read for.
func (l *Layers) aim(items []*readItem) []*readItem {
	t, now := l.c.table, time.Now()
	known := make([]heldObject, len(items))
	t.mu.Lock()
	for i, it := range items {
		if it.held = t.gets[layerKey{l, it.key}]; it.held != nil {
			it.held.used = now
			it.lapses = it.held.lapses
			known[i] = *it.held
		}
	}
	t.mu.Unlock()
	aimed := make([]*readItem, 0, len(items))
	for i, it := range items {
		h := &known[i]
		if it.held == nil {
			it.err = noSession("get", it.key)
			continue
		}
		if h.obj.LeaseTTL <= 0 {
			h.asked = now // There is no lease to run out; found decides what protects the read.
		}
		o := h.obj
		o.Replicas = slices.Clone(o.Replicas) // They are ranked.
		if err := l.c.found(it, o, h.asked); err != nil {
			it.err = errs.Wrap(errs.CodeOf(err), "store: get "+quote(it.key), err)
		}
		switch {
		case it.err != nil || len(it.spans) == 0:
		case !now.Before(it.expires):
			it.err = lapsed(it.key, h.why)
		default:
			aimed = append(aimed, it)
		}
	}
	return aimed
}

// until is when what is read of an item may not be the object's any more. A read in a
// session gains from a renewal meanwhile that came in time and still names the copy.
func (t *layerTable) until(it *readItem) time.Time {
	if it.held == nil || it.obj.LeaseTTL <= 0 {
		return it.expires
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if it.held.lapses != it.lapses || !hasReplica(&it.held.obj, it.replica()) {
		return it.expires
	}
	return it.held.expires()
}

// lapsed is the answer to a read without a lease.
func lapsed(key model.Key, why error) error {
	if why == nil {
		why = errNotRenewed
	}
	return errs.WithHint(errs.New(errs.LeaseExpired, "store: get "+quote(key), "the lease of the session ran out: %w", why),
		"what was read before is good; end the session and start it again for the rest")
}
