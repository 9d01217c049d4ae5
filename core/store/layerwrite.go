package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Source is a piece of an object and the memory it is written from.
type Source struct {
	Offset uint64
	Src    []byte
}

// RangeWrite is pieces of one object.
type RangeWrite struct {
	Key    model.Key
	Ranges []Source
}

// PutSessionRanges writes pieces of objects that sessions are open for to all of their
// copies, without asking the master, and answers per key how many bytes they are together.
// The memory must not change until it returned. Pieces may come in any order and be written
// again; those of calls at the same time that overlap must have the same bytes.
//
// InvalidParams: no session is open, or a piece goes beyond the object; nothing of the key
// was written. TransferFail: the object cannot be completed any more, every further write
// answers so, and the end revokes it. No key spoils another.
func (l *Layers) PutSessionRanges(ctx context.Context, writes []RangeWrite) []model.Result[int] {
	c := l.c
	defer observe(c.metrics.batchPut, time.Now())
	out := make([]model.Result[int], len(writes))
	if err := c.enter(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer c.calls.Done()
	t0, bytes := time.Now(), 0
	inBatches(len(writes), c.cfg.MaxBatch, func(lo, hi int) { l.write(ctx, writes[lo:hi], out[lo:hi]) })
	for i := range out {
		bytes += out[i].Value
	}
	c.metrics.writes.done("batch_put_from_multi_buffer_ranges", uint64(bytes), t0)
	return out
}

// layerWrite is a write in flight.
type layerWrite struct {
	put   *openPut
	item  *putItem
	first int // index of the checksum of its first piece
	out   *model.Result[int]
}

// write moves pieces and computes their checksums meanwhile.
func (l *Layers) write(ctx context.Context, writes []RangeWrite, out []model.Result[int]) {
	c := l.c
	var begun []layerWrite
	var items []*putItem
	var all []span
	for i := range writes {
		p, it, err := l.begin(&writes[i])
		if out[i].Err = err; err != nil {
			continue
		}
		begun = append(begun, layerWrite{p, it, len(all), &out[i]})
		items = append(items, it)
		all = append(all, it.spans...)
	}
	w := c.writing(0)
	defer c.doneWriting(w)
	sums := make([]uint32, len(all))
	if c.cfg.Checksum {
		for i := range all {
			w.sums.add(all[i : i+1])
		}
		w.sumInBackground()
	}
	c.send(ctx, w, items)
	w.summed.Wait()
	for i, s := range w.sums.sums {
		sums[i] = uint32(s.Value)
	}
	for _, b := range begun {
		l.c.table.wrote(b, sums[b.first:])
	}
}

// begin notes a write in flight, to be ended with wrote.
func (l *Layers) begin(w *RangeWrite) (*openPut, *putItem, error) {
	t, now := l.c.table, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.puts[layerKey{l, w.Key}]
	if p == nil || p.sealed {
		return nil, nil, noSession("put", w.Key)
	}
	if p.failed != nil {
		return nil, nil, p.failed
	}
	end := p.started.Add(l.c.cfg.Layers.PutTimeout)
	it := &putItem{key: w.Key, size: p.item.size, replicas: p.item.replicas, deadline: l.c.cfg.writing(now)}
	if end.Before(it.deadline) {
		it.deadline = end
	}
	for _, r := range w.Ranges {
		n := uint64(len(r.Src))
		if r.Offset > it.size || n > it.size-r.Offset {
			return nil, nil, errs.New(errs.InvalidParams, "store: put "+quote(w.Key), "the object has %d bytes, %d from %d on go beyond", it.size, n, r.Offset)
		}
		if n > 0 {
			it.spans = append(it.spans, span{r.Offset, r.Src})
		}
	}
	if !p.tiles.room(len(it.spans)) {
		return nil, nil, errs.WithHint(errs.New(errs.InvalidParams, "store: put "+quote(w.Key), "the object has more than %d gaps", maxTiles),
			"write larger pieces, or pieces that lie side by side")
	}
	p.writing++
	return p, it, nil
}

// wrote ends a write and notes what is in place.
func (t *layerTable) wrote(w layerWrite, sums []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := w.put
	if p.writing--; p.writing == 0 && p.idle != nil {
		defer close(p.idle) // With everything noted.
	}
	if w.out.Err = w.item.err; w.out.Err != nil {
		if p.failed == nil {
			p.failed = w.out.Err
		}
		p.item.doubted = p.item.doubted || w.item.doubted
		return
	}
	for i, s := range w.item.spans {
		p.tiles.add(s.off, s.off+uint64(len(s.mem)), sums[i])
		w.out.Value += len(s.mem)
	}
}
