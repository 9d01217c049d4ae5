package client

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Put is store.Calls.Put.
func (c *Client) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	defer promreg.Observe(c.b.Metrics.Put, time.Now())
	w := c.writer.Call(1)
	defer w.Release()
	w.SetOne(key, value)
	w.Do(ctx, "put", cfg)
	return w.Of[0].Err
}

// PutItems implements store.Pool.
func (c *Client) PutItems(ctx context.Context, items []store.Item, cfg model.ReplicateConfig) []store.PutResult {
	defer promreg.Observe(c.b.Metrics.BatchPut, time.Now())
	w := c.writer.Call(len(items))
	defer w.Release()
	copy(w.In, items)
	w.Do(ctx, "batch_put", cfg)
	out := make([]store.PutResult, len(items))
	for i, it := range w.Of {
		out[i] = store.PutResult{Existed: it.Existed, Err: it.Err}
	}
	return out
}

// BatchPut is store.Calls.BatchPut.
func (c *Client) BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	defer promreg.Observe(c.b.Metrics.BatchPut, time.Now())
	if len(keys) != len(values) {
		return store.Repeat(errs.New(errs.InvalidParams, "store: put", "%d keys came with %d values", len(keys), len(values)), len(keys))
	}
	w := c.writer.Call(len(keys))
	defer w.Release()
	for i, k := range keys {
		w.In[i] = store.Item{Key: k, Value: values[i : i+1]}
	}
	w.Do(ctx, "batch_put", cfg)
	out := make([]error, len(keys))
	for i, it := range w.Of {
		out[i] = it.Err
	}
	return out
}
