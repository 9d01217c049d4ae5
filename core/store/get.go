package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Get returns an object's bytes in new memory. The error codes are those of GetInto.
func (c *Client) Get(ctx context.Context, key model.Key) ([]byte, error) {
	defer observe(c.metrics.get, time.Now())
	r := c.reading(1)
	defer c.doneReading(r)
	it := &r.items[0]
	it.key, it.mode = key, heap
	c.get(ctx, "get", r)
	return it.bytes(), it.err
}

// BatchGet is Get for many keys.
func (c *Client) BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte] {
	defer observe(c.metrics.batchGet, time.Now())
	r := c.reading(len(keys))
	defer c.doneReading(r)
	for i, k := range keys {
		r.items[i] = readItem{key: k, mode: heap}
	}
	c.get(ctx, "batch_get", r)
	out := make([]model.Result[[]byte], len(keys))
	for i := range r.items {
		out[i] = model.Result[[]byte]{Value: r.items[i].bytes(), Err: r.items[i].err}
	}
	return out
}

// GetInto reads an object into dst and returns its size. The bytes are moved straight into
// dst; after an error its content is unspecified.
//
// ObjectNotFound and ReplicaIsNotReady: there is nothing to read. InvalidParams: dst is
// too small. TransferFail: no copy could be reached. ChecksumMismatch: no copy has the
// bytes that were put. LeaseExpired: reading took longer than the master keeps the bytes
// in place, several times. See IsMiss. Where errors.Is(err, transfer.ErrQuarantined) holds,
// dst must not be used for anything else any more.
func (c *Client) GetInto(ctx context.Context, key model.Key, dst []byte) (int, error) {
	defer observe(c.metrics.get, time.Now())
	r := c.reading(1)
	defer c.doneReading(r)
	it := &r.items[0]
	it.key = key
	it.into(dst)
	c.get(ctx, "get_into", r)
	return it.size(), it.err
}

// GetIntoParts is GetInto of an object that is scattered over several pieces of memory: each
// is filled before the next one.
func (c *Client) GetIntoParts(ctx context.Context, key model.Key, dst [][]byte) (int, error) {
	r := c.BatchGetIntoParts(ctx, []model.Key{key}, [][][]byte{dst})[0]
	return r.Value, r.Err
}

// BatchGetInto is GetInto for many keys; the buffers must not overlap. A key may come more
// than once.
func (c *Client) BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	return c.getInto(ctx, "batch_get_into", keys, len(dst), func(i int, it *readItem) { it.into(dst[i]) })
}

// BatchGetIntoParts is GetIntoParts for many keys.
func (c *Client) BatchGetIntoParts(ctx context.Context, keys []model.Key, dst [][][]byte) []model.Result[int] {
	return c.getInto(ctx, "batch_get_into_multi_buffers", keys, len(dst), func(i int, it *readItem) { it.want, _ = chain(nil, dst[i]) })
}

func (c *Client) getInto(ctx context.Context, op string, keys []model.Key, buffers int, aim func(int, *readItem)) []model.Result[int] {
	defer observe(c.metrics.batchGet, time.Now())
	out := make([]model.Result[int], len(keys))
	if len(keys) != buffers {
		err := errs.New(errs.InvalidParams, "store: get", "%d keys came with %d buffers", len(keys), buffers)
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	r := c.reading(len(keys))
	defer c.doneReading(r)
	for i, k := range keys {
		r.items[i].key = k
		aim(i, &r.items[i])
	}
	c.get(ctx, op, r)
	for i := range r.items {
		out[i] = model.Result[int]{Value: r.items[i].size(), Err: r.items[i].err}
	}
	return out
}

// get reads the items of r.
func (c *Client) get(ctx context.Context, op string, r *reading) {
	if err := c.enter(); err != nil {
		for i := range r.items {
			r.items[i].err = err
		}
		return
	}
	defer c.calls.Done()
	t0 := time.Now()
	r.todo = r.todo[:0]
	for i := range r.items {
		it := &r.items[i]
		if it.err = model.ValidateSought(it.key); it.err == nil {
			r.todo = append(r.todo, it)
		}
	}
	inBatches(len(r.todo), c.cfg.MaxBatch, func(lo, hi int) { c.read(ctx, r, r.todo[lo:hi]) })
	bytes := uint64(0)
	for i := range r.items {
		bytes += uint64(r.items[i].size())
	}
	c.metrics.reads.done(op, bytes, t0)
}
