package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Put stores an object. A key that is there already is a success and nothing is written.
// The value must not change until Put returned. InvalidParams for a bad key or an empty
// value; NoAvailableHandle when the pool has no room; TransferFail.
func (c *Client) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	defer observe(c.metrics.put, time.Now())
	return c.put(ctx, []model.Key{key}, [][]byte{value}, cfg)[0]
}

// BatchPut is Put for many objects: the bytes of all of them move in parallel, and the
// master is asked once for a batch. Of several values for one key the first counts, and
// the others share its answer.
func (c *Client) BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	defer observe(c.metrics.batchPut, time.Now())
	return c.put(ctx, keys, values, cfg)
}

// putItem is one object on its way into the pool.
type putItem struct {
	key      model.Key
	value    []byte
	sum      model.Checksum
	replicas []model.Replica
	err      error
	// poisoned: a peer may still write to the object's place after the put failed.
	poisoned bool
}

// put names the item's put to the master, 0 where the master named no place.
func (it *putItem) put() uint64 {
	if len(it.replicas) == 0 {
		return 0
	}
	return it.replicas[0].ID
}

func (c *Client) put(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	out := make([]error, len(keys))
	fill := func(err error) []error {
		for i := range out {
			out[i] = err
		}
		return out
	}
	if len(keys) != len(values) {
		return fill(errs.New(errs.InvalidParams, "store: put", "%d keys came with %d values", len(keys), len(values)))
	}
	if err := c.enter(); err != nil {
		return fill(err)
	}
	defer c.calls.Done()

	items := make([]*putItem, len(keys))
	todo := make([]*putItem, 0, len(keys))
	first := map[model.Key]*putItem{}
	for i, k := range keys {
		if len(keys) > 1 {
			if it := first[k]; it != nil {
				items[i] = it
				continue
			}
		}
		it := &putItem{key: k, value: values[i], err: model.ValidateKey(k)}
		if it.err == nil && len(it.value) == 0 {
			it.err = errs.New(errs.InvalidParams, "store: put "+quote(k), "the value is empty; an object has at least 1 byte")
		}
		items[i] = it
		if len(keys) > 1 {
			first[k] = it
		}
		if it.err == nil {
			todo = append(todo, it)
		}
	}
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) { c.putWaiting(ctx, todo[lo:hi], cfg) })
	for i, it := range items {
		out[i] = it.err
	}
	return out
}

// putWaiting puts items, and those that found no room again until AllocWait is over.
func (c *Client) putWaiting(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) {
	end := time.Now().Add(c.cfg.AllocWait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		c.putOnce(ctx, items, cfg)
		var full []*putItem
		for _, it := range items {
			if errs.Is(it.err, errs.NoAvailableHandle) {
				full = append(full, it)
			}
		}
		if len(full) == 0 || !time.Now().Add(pause).Before(end) {
			c.metrics.noSpace.Add(float64(len(full)))
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		items = full
	}
}

// putOnce takes items through start, transfer and end.
func (c *Client) putOnce(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) {
	started := c.putStart(ctx, items, cfg)
	if len(started) == 0 {
		return
	}
	c.write(ctx, started)
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	c.putEnd(ctx, started)
	c.putRevoke(ctx, started)
}

// putStart asks for room and returns the items that got some.
func (c *Client) putStart(ctx context.Context, items []*putItem, cfg model.ReplicateConfig) []*putItem {
	ask := make([]model.PutItem, len(items))
	for i, it := range items {
		ask[i] = model.PutItem{Key: it.key, Size: uint64(len(it.value))}
	}
	t0 := time.Now()
	got, err := c.master.PutStart(ctx, c.caller, ask, cfg)
	c.rpc("BatchPutStart", t0)
	if err == nil && len(got) != len(items) {
		err = shortAnswer(len(got), len(items))
	}
	started := make([]*putItem, 0, len(items))
	for i, it := range items {
		switch {
		case err != nil:
			it.err = errs.Wrap(errs.CodeOf(err), "store: put "+quote(it.key), err)
		case errs.Is(got[i].Err, errs.ObjectAlreadyExists):
			it.err = nil
			c.metrics.existed.Inc()
		case got[i].Err != nil:
			it.err = errs.Wrap(errs.CodeOf(got[i].Err), "store: put "+quote(it.key), got[i].Err)
		default:
			it.err, it.replicas = nil, got[i].Value
			started = append(started, it)
		}
	}
	return started
}

// putEnd makes the objects readable whose bytes are in place.
func (c *Client) putEnd(ctx context.Context, items []*putItem) {
	var done []*putItem
	var ends []model.EndItem
	for _, it := range items {
		if it.err == nil {
			done = append(done, it)
			ends = append(ends, model.EndItem{Key: it.key, Checksum: it.sum, Put: it.put()})
		}
	}
	if len(done) == 0 {
		return
	}
	defer c.rpc("BatchPutEnd", time.Now())
	got, err := c.master.PutEnd(ctx, c.caller, ends)
	if err == nil && len(got) != len(done) {
		err = shortAnswer(len(got), len(done))
	}
	for i, it := range done {
		e := err
		if e == nil {
			e = got[i]
		}
		it.err = errs.Wrap(errs.CodeOf(e), "store: end put "+quote(it.key), e)
		// Not to be revoked: the master has decided, or does not answer.
		it.poisoned = it.poisoned || e != nil
	}
}

// putRevoke gives back the room of the puts that failed. Where a peer may still write it
// is left to the master's timeout instead, which is made for slow writers.
func (c *Client) putRevoke(ctx context.Context, items []*putItem) {
	var given []model.RevokeItem
	for _, it := range items {
		switch {
		case it.err != nil && !it.poisoned:
			given = append(given, model.RevokeItem{Key: it.key, Put: it.put()})
		case it.err != nil:
			c.metrics.unrevoked.Inc()
		}
	}
	if len(given) == 0 {
		return
	}
	defer c.rpc("BatchPutRevoke", time.Now())
	if _, err := c.master.PutRevoke(ctx, c.caller, given); err != nil {
		c.log.Warn("failed puts could not be revoked, the master releases them by its timeout", "keys", len(given), "error", err)
	}
}

// quote shows a key in an error, shortened.
func quote(k model.Key) string {
	if len(k) > 64 {
		k = k[:64] + "..."
	}
	return "\"" + k + "\""
}
