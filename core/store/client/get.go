package client

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/get"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Get is store.Calls.Get.
func (c *Client) Get(ctx context.Context, key model.Key) ([]byte, error) {
	defer promreg.Observe(c.b.Metrics.Get, time.Now())
	r := c.reader.Call(1)
	defer r.Release()
	it := &r.Items[0]
	it.Key, it.Owner = key, get.Heap
	r.Do(ctx, "get")
	return it.Bytes(), it.Err
}

// GetInto is store.Calls.GetInto.
func (c *Client) GetInto(ctx context.Context, key model.Key, dst ...[]byte) (int, error) {
	defer promreg.Observe(c.b.Metrics.Get, time.Now())
	r := c.reader.Call(1)
	defer r.Release()
	it := &r.Items[0]
	it.Key = key
	it.Into(dst...)
	r.Do(ctx, "get_into")
	return it.Size(), it.Err
}

// GetFragments implements store.Pool.
func (c *Client) GetFragments(ctx context.Context, keys []model.Key, dst [][]byte, rows []uint64) []model.Result[int] {
	if err := store.CheckRows(len(keys), len(dst), rows); err != nil {
		return base.Failed[int](len(keys), err)
	}
	op := "batch_get_into"
	if rows != nil {
		op = "batch_get_into_multi_buffers"
	}
	out := make([]model.Result[int], len(keys))
	c.batch(ctx, op, keys, func(i int, it *get.Item) { it.Into(store.Row(dst, rows, i)...) }, func(i int, it *get.Item) {
		out[i] = model.Result[int]{Value: it.Size(), Err: it.Err}
	})
	return out
}

// batch reads objects: aim prepares an item, done takes its result.
func (c *Client) batch(ctx context.Context, op string, keys []model.Key, aim, done func(int, *get.Item)) {
	defer promreg.Observe(c.b.Metrics.BatchGet, time.Now())
	r := c.reader.Call(len(keys))
	defer r.Release()
	for i, k := range keys {
		r.Items[i].Key = k
		aim(i, &r.Items[i])
	}
	r.Do(ctx, op)
	for i := range r.Items {
		done(i, &r.Items[i])
	}
}

// GetBuffers implements store.Pool. The memory comes from session.Deps.Buffers, or from the heap if
// they have no space.
func (c *Client) GetBuffers(ctx context.Context, keys []model.Key, fresh bool) []model.Result[store.Lent] {
	op, owner := "batch_get_buffer", get.Lent
	if fresh {
		op, owner = "batch_get", get.Heap
	}
	out := make([]model.Result[store.Lent], len(keys))
	c.batch(ctx, op, keys, func(_ int, it *get.Item) { it.Owner = owner }, func(i int, it *get.Item) {
		out[i].Value, out[i].Err = it.Lent()
	})
	return out
}

// GetIntoRanges implements store.Pool.
func (c *Client) GetIntoRanges(ctx context.Context, reads []store.Ranges) [][]model.Result[int] {
	out := make([][]model.Result[int], len(reads))
	keys := make([]model.Key, len(reads))
	for i := range reads {
		keys[i] = reads[i].Key
	}
	c.batch(ctx, "get_into_ranges", keys, func(i int, it *get.Item) {
		out[i] = make([]model.Result[int], len(reads[i].Fragments))
		it.Ranges = func(size uint64) []store.Fragment { return inside(&reads[i], size, out[i]) }
	}, func(i int, it *get.Item) {
		for k := range out[i] {
			switch {
			case it.Err != nil:
				out[i][k] = model.Result[int]{Err: it.Err}
			case out[i][k].Err == nil:
				out[i][k].Value = len(reads[i].Fragments[k].Mem)
			}
		}
	})
	return out
}

// inside returns the ranges that are within an object, and sets the errors of the others.
func inside(r *store.Ranges, size uint64, out []model.Result[int]) []store.Fragment {
	fs := make([]store.Fragment, 0, len(r.Fragments))
	for k, f := range r.Fragments {
		if out[k].Err = nil; f.Within(size) {
			fs = append(fs, f)
		} else {
			out[k].Err = errs.New(errs.InvalidParams, "store: get "+store.Quote(r.Key), "the object has %d bytes, [%d, %d) goes beyond", size, f.Offset, f.Offset+uint64(len(f.Mem)))
		}
	}
	return fragment.NotEmpty(fs)
}
