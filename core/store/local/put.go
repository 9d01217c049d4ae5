package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// Put stores an object; see store.Client. A value in shared memory is not copied.
func (c *Client) Put(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	return c.PutParts(ctx, key, [][]byte{value}, cfg)
}

// PutParts is Put of a value that lies in several pieces of memory.
func (c *Client) PutParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error {
	return c.PutItems(ctx, []store.Item{{Key: key, Parts: parts}}, cfg)[0].Err
}

// BatchPut is Put for many objects.
func (c *Client) BatchPut(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	out := make([]error, len(keys))
	if len(keys) != len(values) {
		for i := range out {
			out[i] = errs.New(errs.InvalidParams, "local client: put", "%d keys came with %d values", len(keys), len(values))
		}
		return out
	}
	items := make([]store.Item, len(keys))
	for i, k := range keys {
		items[i] = store.Item{Key: k, Parts: values[i : i+1]}
	}
	for i, r := range c.PutItems(ctx, items, cfg) {
		out[i] = r.Err
	}
	return out
}

// Upsert stores an object in place of the one that is there, if any.
func (c *Client) Upsert(ctx context.Context, key model.Key, value []byte, cfg model.ReplicateConfig) error {
	cfg.Upsert = true
	return c.Put(ctx, key, value, cfg)
}

// UpsertParts is Upsert of a value that lies in several pieces of memory.
func (c *Client) UpsertParts(ctx context.Context, key model.Key, parts [][]byte, cfg model.ReplicateConfig) error {
	cfg.Upsert = true
	return c.PutParts(ctx, key, parts, cfg)
}

// BatchUpsert is Upsert for many objects.
func (c *Client) BatchUpsert(ctx context.Context, keys []model.Key, values [][]byte, cfg model.ReplicateConfig) []error {
	cfg.Upsert = true
	return c.BatchPut(ctx, keys, values, cfg)
}

// PutItems is BatchPut for objects in several pieces, and with groups. Values in memory
// that is not shared go through the local buffer, as many at a time as fit.
func (c *Client) PutItems(ctx context.Context, items []store.Item, cfg model.ReplicateConfig) []store.PutResult {
	out := make([]store.PutResult, len(items))
	if err := c.enter(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer c.calls.Done()
	b := &putBatch{c: c, cfg: cfg, out: out}
	for i := range items {
		b.add(ctx, i, &items[i])
	}
	b.send(ctx)
	return out
}

// putBatch collects the objects of one call.
type putBatch struct {
	c      *Client
	cfg    model.ReplicateConfig
	out    []store.PutResult
	index  []int
	req    *localv1.PutRequest
	refs   []codec.Ref
	staged []*memory.Buffer
	bytes  int // of the keys
	group  bool
}

// add takes an object in, and sends what was collected when there is no more room.
func (b *putBatch) add(ctx context.Context, i int, it *store.Item) {
	if b.req != nil && (len(b.index) >= maxItems || len(b.refs)+len(it.Parts) > maxPieces || b.bytes+len(it.Key) > maxKeyBytes) {
		b.send(ctx)
	}
	refs, shared := b.c.regions.refs(it.Parts, nil)
	if !shared {
		buf, err := b.copyOf(ctx, it)
		if err != nil {
			b.out[i].Err = err
			return
		}
		b.staged = append(b.staged, buf)
		r, _ := b.c.regions.ref(buf.Bytes()) // The local buffer is a region.
		refs = []codec.Ref{r}
	}
	if b.req == nil {
		b.req = &localv1.PutRequest{Config: codec.ReplicateOut(b.cfg)}
	}
	b.index = append(b.index, i)
	b.req.Keys = append(b.req.Keys, []byte(it.Key))
	b.req.Parts = append(b.req.Parts, uint32(len(refs)))
	b.req.Groups = append(b.req.Groups, it.Group)
	b.group = b.group || it.Group != ""
	b.refs = append(b.refs, refs...)
	b.bytes += len(it.Key)
}

// copyOf copies a value into the local buffer. It waits for room only while the batch holds
// none, so that two batches cannot wait for each other.
func (b *putBatch) copyOf(ctx context.Context, it *store.Item) (*memory.Buffer, error) {
	size := 0
	for _, p := range it.Parts {
		size += len(p)
	}
	buf, err := b.c.room(ctx, size, func() { b.send(ctx) }, len(b.staged) > 0)
	if err != nil {
		return nil, err
	}
	at := buf.Bytes()
	for _, p := range it.Parts {
		at = at[copy(at, p):]
	}
	return buf, nil
}

// room lends size bytes of the local buffer. Whoever holds some already gives it back with
// flush before waiting.
func (c *Client) room(ctx context.Context, size int, flush func(), holds bool) (*memory.Buffer, error) {
	if c.stage == nil || size > len(c.stage.Memory()) {
		have := uint64(0)
		if c.stage != nil {
			have = uint64(len(c.stage.Memory()))
		}
		return nil, errs.WithHint(errs.New(errs.BufferOverflow, "local client", "%s in memory that is not shared do not fit the local buffer of %s", memory.Human(uint64(size)), memory.Human(have)),
			"use memory of the allocator and register it, or a larger local buffer")
	}
	if buf, ok := c.stage.TryGet(size); ok {
		return buf, nil
	}
	if holds {
		flush()
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	return c.stage.Get(ctx, size)
}

// send has the service put what was collected.
func (b *putBatch) send(ctx context.Context) {
	if b.req == nil {
		return
	}
	req, index, staged := b.req, b.index, b.staged
	req.Refs = codec.RefsOut(b.refs)
	if !b.group {
		req.Groups = nil
	}
	b.req, b.index, b.staged, b.refs, b.bytes, b.group = nil, nil, nil, nil, 0, false
	resp, spoilt, err := touch(ctx, b.c, "put", func(ctx context.Context, l *link, call *localv1.Call) (*localv1.PutResponse, error) {
		req.Call = call
		return l.rpc.Put(ctx, req)
	})
	if !spoilt {
		for _, s := range staged {
			s.Release()
		}
	}
	if err == nil && len(resp.GetExisted()) != len(index) {
		err = errs.New(errs.DeserializeFail, "local client: put", "%d answers came for %d objects", len(resp.GetExisted()), len(index))
	}
	if err == nil {
		for k, i := range index {
			b.out[i].Existed = resp.GetExisted()[k]
		}
		err = codec.ErrorsIn(len(index), resp.GetErrors(), func(k int, e error) { b.out[index[k]].Err = e })
	}
	if err != nil {
		for _, i := range index {
			b.out[i].Err = err
		}
	}
}
