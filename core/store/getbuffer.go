package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
)

// Buffer holds an object that was read, until it is released.
type Buffer struct {
	mem  []byte
	lent *memory.Buffer
}

// Bytes returns the object; nil after Release.
func (b *Buffer) Bytes() []byte { return b.mem }

// Release gives the memory back; it must not be used any more. Releasing twice, or nil, does
// nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	b.lent.Release()
	b.mem, b.lent = nil, nil
}

// GetBuffer reads an object into memory lent from Deps.Buffers, or from the heap when there
// is no room. The caller releases it. The error codes are those of GetInto.
func (c *Client) GetBuffer(ctx context.Context, key model.Key) (*Buffer, error) {
	r := c.BatchGetBuffer(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchGetBuffer is GetBuffer for many keys. Each buffer is released for itself.
func (c *Client) BatchGetBuffer(ctx context.Context, keys []model.Key) []model.Result[*Buffer] {
	defer observe(c.metrics.batchGet, time.Now())
	r := c.reading(len(keys))
	defer c.doneReading(r)
	for i, k := range keys {
		r.items[i] = readItem{key: k, mode: pooled}
	}
	c.get(ctx, "batch_get_buffer", r)
	out := make([]model.Result[*Buffer], len(keys))
	for i := range r.items {
		it := &r.items[i]
		switch {
		case !it.ok:
			it.lent.Release()
			out[i].Err = it.err
		case it.lent != nil:
			out[i].Value = it.lent
		default:
			out[i].Value = &Buffer{mem: it.bytes()}
		}
	}
	return out
}
