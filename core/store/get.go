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
	items := []readItem{{key: key, mode: heap}}
	c.get(ctx, "get", items)
	return items[0].bytes(), items[0].err
}

// BatchGet is Get for many keys.
func (c *Client) BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte] {
	defer observe(c.metrics.batchGet, time.Now())
	items := make([]readItem, len(keys))
	for i, k := range keys {
		items[i] = readItem{key: k, mode: heap}
	}
	c.get(ctx, "batch_get", items)
	out := make([]model.Result[[]byte], len(keys))
	for i := range items {
		out[i] = model.Result[[]byte]{Value: items[i].bytes(), Err: items[i].err}
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
	items := []readItem{{key: key}}
	items[0].into(dst)
	c.get(ctx, "get_into", items)
	return items[0].size(), items[0].err
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
	items := make([]readItem, len(keys))
	for i, k := range keys {
		items[i].key = k
		aim(i, &items[i])
	}
	c.get(ctx, op, items)
	for i := range items {
		out[i] = model.Result[int]{Value: items[i].size(), Err: items[i].err}
	}
	return out
}

func (c *Client) get(ctx context.Context, op string, items []readItem) {
	if err := c.enter(); err != nil {
		for i := range items {
			items[i].err = err
		}
		return
	}
	defer c.calls.Done()
	t0 := time.Now()
	todo := make([]*readItem, 0, len(items))
	for i := range items {
		it := &items[i]
		if it.err = model.ValidateKey(it.key); it.err == nil {
			todo = append(todo, it)
		}
	}
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) { c.read(ctx, todo[lo:hi]) })
	bytes := uint64(0)
	for i := range items {
		bytes += uint64(items[i].size())
	}
	c.metrics.reads.done(op, bytes, t0)
}
