package layers

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/get"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// PutRanges implements store.Layers.
func (l *Layers) PutRanges(ctx context.Context, writes []store.Ranges) []model.Result[int] {
	defer promreg.Observe(l.Metrics.BatchPut, time.Now())
	if err := l.Calls.Enter("store"); err != nil {
		return base.Failed[int](len(writes), err)
	}
	defer l.Calls.Leave()
	out := make([]model.Result[int], len(writes))
	t0, bytes := time.Now(), 0
	base.InBatches(len(writes), l.Config.MaxBatch, func(lo, hi int) { l.write(ctx, writes[lo:hi], out[lo:hi]) })
	for i := range out {
		bytes += out[i].Value
	}
	l.Metrics.Writes.Done("batch_put_from_multi_buffer_ranges", uint64(bytes), t0)
	return out
}

// write moves ranges and computes their checksums meanwhile.
func (l *Layers) write(ctx context.Context, writes []store.Ranges, out []model.Result[int]) {
	puts, items := make([]*openPut, len(writes)), make([]*put.Item, 0, len(writes))
	right := l.Session.WriteRight()
	for i := range writes {
		var it *put.Item
		if puts[i], it, out[i].Err = l.begin(&writes[i], right); it != nil {
			items = append(items, it)
		}
	}
	c := l.writer.Call(0)
	defer c.Release()
	if l.Seal == nil {
		c.WriteRanges(ctx, right, items)
	} else {
		collect(puts, items)
	}
	for i, p := range puts {
		if p != nil {
			out[i] = l.wrote(p, items[0], c)
			items = items[1:]
		}
	}
}

// begin records a write in flight, which wrote ends.
func (l *Layers) begin(w *store.Ranges, right session.WriteRight) (*openPut, *put.Item, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.puts[id{l, w.Key}]
	if p == nil || p.sealed {
		return nil, nil, get.NoSession("put", w.Key)
	}
	if p.failed == nil && p.right != right {
		p.failed = lostRight(w.Key)
	}
	if p.failed != nil {
		return nil, nil, p.failed
	}
	deadline := l.Config.WriteDeadline(now)
	if end := p.started.Add(l.Config.Layers.PutTimeout - boottime.Slept()); end.Before(deadline) {
		deadline = end
	}
	fragments, err := within("put", w, p.item.Size())
	if err != nil {
		return nil, nil, err
	}
	if !p.written.hasSpace(len(fragments)) {
		return nil, nil, errs.WithHint(errs.New(errs.InvalidParams, "store: put "+store.Quote(w.Key), "the object has more than %d gaps", maxRuns),
			"write larger ranges, or adjacent ranges")
	}
	p.writing++
	return p, p.item.Ranges(fragments, deadline), nil
}

// wrote ends a write and records what is in place.
func (l *Layers) wrote(p *openPut, it *put.Item, c *put.Call) (out model.Result[int]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.writing--; p.writing == 0 && p.idle != nil {
		defer close(p.idle) // After everything is recorded.
	}
	if it.Err != nil {
		if p.failed == nil {
			p.failed = it.Err
		}
		p.item.Inherit(it)
		return model.Result[int]{Err: it.Err}
	}
	for _, f := range it.Fragments() {
		p.written.add(f.Offset, f.Offset+uint64(len(f.Mem)))
		out.Value += len(f.Mem)
	}
	if p.grains != nil && l.Seal == nil {
		c.Fold(it, p.grains)
	}
	return out
}
