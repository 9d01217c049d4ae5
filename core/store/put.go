package store

import (
	"context"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Item is one object to be put.
type Item struct {
	Key model.Key
	// Parts are the object's bytes, one piece after the other. They are read where they lie
	// and must not change until the put returned.
	Parts [][]byte
	// Group is that of model.PutItem.
	Group string
}

// PutResult is how one put ended.
type PutResult struct {
	// Existed is true where a value was there already and nothing was written, which is a
	// success.
	Existed bool
	Err     error
}

// Put stores an object. A key that is there already is a success and nothing is written.
// The value must not change until Put returned. InvalidParams for a bad key or an empty
// value; NoAvailableHandle when the pool has no room; TransferFail. With cfg.Upsert the
// value that is there is replaced; see Upsert. Where it is unknown whether bytes arrived,
// the put is retried in a new allocation.
func (c *Client) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	defer observe(c.metrics.put, time.Now())
	w := c.writing(1)
	defer c.doneWriting(w)
	w.one[0] = value
	w.in[0] = Item{Key: key, Parts: w.one[:]}
	c.put(ctx, "put", w, cfg)
	return w.of[0].err
}

// PutParts is Put of a value that lies in several pieces of memory.
func (c *Client) PutParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error {
	defer observe(c.metrics.put, time.Now())
	w := c.writing(1)
	defer c.doneWriting(w)
	w.in[0] = Item{Key: key, Parts: parts}
	c.put(ctx, "put_parts", w, cfg)
	return w.of[0].err
}

// BatchPut is Put for many objects: the bytes of all of them move in parallel, and the
// master is asked once for a batch. Of several values for one key the first counts, and
// the others share its answer.
func (c *Client) BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	defer observe(c.metrics.batchPut, time.Now())
	return c.batchPut(ctx, "batch_put", keys, values, cfg)
}

// PutItems is BatchPut for objects in several pieces, and with groups. It says of each
// whether it was there already.
func (c *Client) PutItems(ctx context.Context, items []Item, cfg model.ReplicateConfig) []PutResult {
	defer observe(c.metrics.batchPut, time.Now())
	w := c.writing(len(items))
	defer c.doneWriting(w)
	copy(w.in, items)
	c.put(ctx, "batch_put", w, cfg)
	out := make([]PutResult, len(items))
	for i, it := range w.of {
		out[i] = PutResult{Existed: it.existed, Err: it.err}
	}
	return out
}

// Upsert stores an object in place of the one that is there, if any. Readers get one value
// or the other. ObjectReplicaBusy and ObjectHasReplicationTask while the old value cannot be
// replaced, InvalidParams for another group than it has, and what Put answers. A second
// attempt inherits no pin: by then the old value is gone.
func (c *Client) Upsert(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	cfg.Upsert = true
	return c.Put(ctx, key, value, cfg)
}

// UpsertParts is Upsert of a value that lies in several pieces of memory.
func (c *Client) UpsertParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error {
	cfg.Upsert = true
	return c.PutParts(ctx, key, parts, cfg)
}

// BatchUpsert is Upsert for many objects. Of several values for one key the last counts,
// and the others share its answer.
func (c *Client) BatchUpsert(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	cfg.Upsert = true
	return c.BatchPut(ctx, keys, values, cfg)
}

func (c *Client) batchPut(ctx context.Context, op string, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	out := make([]error, len(keys))
	if len(keys) != len(values) {
		err := errs.New(errs.InvalidParams, "store: put", "%d keys came with %d values", len(keys), len(values))
		for i := range out {
			out[i] = err
		}
		return out
	}
	w := c.writing(len(keys))
	defer c.doneWriting(w)
	for i, k := range keys {
		w.in[i] = Item{Key: k, Parts: values[i : i+1]}
	}
	c.put(ctx, op, w, cfg)
	for i, it := range w.of {
		out[i] = it.err
	}
	return out
}

// put checks the inputs of w, joins those of one key, and works on the rest in batches. How
// each input ended is in w.of.
func (c *Client) put(ctx context.Context, op string, w *writing, cfg model.ReplicateConfig) {
	c.putItems(w, cfg.Upsert)
	if err := c.enter(); err != nil {
		for _, it := range w.of {
			it.err = err
		}
		return
	}
	defer c.calls.Done()
	t0 := time.Now()
	if cfg.HostID == "" {
		cfg.HostID = c.host
	}
	if cfg.Upsert {
		op = "upsert"
	}
	inBatches(len(w.todo), c.cfg.MaxBatch, func(lo, hi int) {
		c.putWaiting(ctx, w.todo[lo:hi], func(items []*putItem) { c.putOnce(ctx, w, items, cfg) })
	})
	bytes := uint64(0)
	for _, it := range w.of {
		if it.err == nil && !it.existed {
			bytes += it.size
		}
	}
	c.metrics.writes.done(op, bytes, t0)
}

// putItems makes the item of each input of w, and those that are to be worked on.
func (c *Client) putItems(w *writing, last bool) {
	n := len(w.in)
	w.items, w.of, w.todo = slices.Grow(w.items[:0], n)[:n], w.of[:0], w.todo[:0]
	if n > 1 && w.byKey == nil {
		w.byKey = make(map[model.Key]*putItem, n)
	}
	for i := range w.in {
		in, it := &w.in[i], &w.items[i]
		if n > 1 {
			if first := w.byKey[in.Key]; first != nil {
				if w.of = append(w.of, first); last {
					first.set(in)
				}
				continue
			}
			w.byKey[in.Key] = it
		}
		it.set(in)
		w.of = append(w.of, it)
	}
	for i, it := range w.of {
		if it.err == nil && it == &w.items[i] {
			w.todo = append(w.todo, it)
		}
		if c.hot != nil {
			c.hot.Drop(it.key)
		}
	}
}
