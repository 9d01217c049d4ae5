package store

import (
	"context"
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
// value that is there is replaced; see Upsert. Where it is in doubt whether bytes arrived,
// the put is made once more in other room.
func (c *Client) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	defer observe(c.metrics.put, time.Now())
	parts := [1][]byte{value}
	return c.put(ctx, "put", []Item{{Key: key, Parts: parts[:]}}, cfg)[0].Err
}

// PutParts is Put of a value that lies in several pieces of memory.
func (c *Client) PutParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error {
	defer observe(c.metrics.put, time.Now())
	return c.put(ctx, "put_parts", []Item{{Key: key, Parts: parts}}, cfg)[0].Err
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
	return c.put(ctx, "batch_put", items, cfg)
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
	items := make([]Item, len(keys))
	for i, k := range keys {
		items[i] = Item{Key: k, Parts: values[i : i+1]}
	}
	for i, r := range c.put(ctx, op, items, cfg) {
		out[i] = r.Err
	}
	return out
}

// put checks items, joins those of one key, and works on the rest in batches.
func (c *Client) put(ctx context.Context, op string, in []Item, cfg model.ReplicateConfig) []PutResult {
	out := make([]PutResult, len(in))
	if err := c.enter(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer c.calls.Done()
	t0 := time.Now()
	if cfg.HostID == "" {
		cfg.HostID = c.host
	}
	if cfg.Upsert {
		op = "upsert"
	}
	items, todo := c.putItems(in, cfg.Upsert)
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) {
		c.putWaiting(ctx, todo[lo:hi], func(items []*putItem) { c.putOnce(ctx, items, cfg) })
	})
	bytes := uint64(0)
	for i, it := range items {
		out[i] = PutResult{Existed: it.existed, Err: it.err}
		if it.err == nil && !it.existed {
			bytes += it.size
		}
	}
	c.metrics.writes.done(op, bytes, t0)
	return out
}

// putItems returns the item of each input, and those that are to be worked on.
func (c *Client) putItems(in []Item, last bool) (items, todo []*putItem) {
	items, todo = make([]*putItem, len(in)), make([]*putItem, 0, len(in))
	var byKey map[model.Key]*putItem
	if len(in) > 1 {
		byKey = make(map[model.Key]*putItem, len(in))
	}
	for i := range in {
		if it := byKey[in[i].Key]; it != nil {
			if items[i] = it; last {
				it.set(&in[i])
			}
			continue
		}
		it := &putItem{}
		it.set(&in[i])
		items[i] = it
		if byKey != nil {
			byKey[it.key] = it
		}
	}
	for i, it := range items {
		if it.err == nil && (byKey == nil || byKey[it.key] == it) {
			todo = append(todo, items[i])
			delete(byKey, it.key)
		}
		if c.hot != nil {
			c.hot.Drop(it.key)
		}
	}
	return items, todo
}
