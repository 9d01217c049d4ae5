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
	items := []readItem{{key: key, allocate: true}}
	c.get(ctx, items)
	return items[0].bytes(), items[0].err
}

// BatchGet is Get for many keys.
func (c *Client) BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte] {
	defer observe(c.metrics.batchGet, time.Now())
	items := make([]readItem, len(keys))
	for i, k := range keys {
		items[i] = readItem{key: k, allocate: true}
	}
	c.get(ctx, items)
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
	items := []readItem{{key: key, dst: dst}}
	c.get(ctx, items)
	return len(items[0].bytes()), items[0].err
}

// BatchGetInto is GetInto for many keys; the buffers must not overlap. A key may come more
// than once.
func (c *Client) BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	defer observe(c.metrics.batchGet, time.Now())
	out := make([]model.Result[int], len(keys))
	if len(keys) != len(dst) {
		err := errs.New(errs.InvalidParams, "store: get", "%d keys came with %d buffers", len(keys), len(dst))
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	items := make([]readItem, len(keys))
	for i, k := range keys {
		items[i] = readItem{key: k, dst: dst[i]}
	}
	c.get(ctx, items)
	for i := range items {
		out[i] = model.Result[int]{Value: len(items[i].bytes()), Err: items[i].err}
	}
	return out
}

func (c *Client) get(ctx context.Context, items []readItem) {
	if err := c.enter(); err != nil {
		for i := range items {
			items[i].err = err
		}
		return
	}
	defer c.calls.Done()
	todo := make([]*readItem, 0, len(items))
	for i := range items {
		it := &items[i]
		if it.err = model.ValidateKey(it.key); it.err == nil {
			todo = append(todo, it)
		}
	}
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) { c.read(ctx, todo[lo:hi]) })
}
