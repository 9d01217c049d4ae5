package local

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// GetInto reads an object into dst; see store.Client. Shared memory is written to by the
// transports, other memory by one copy.
func (c *Client) GetInto(ctx context.Context, key model.Key, dst []byte) (int, error) {
	return c.GetIntoParts(ctx, key, [][]byte{dst})
}

// GetIntoParts is GetInto of an object that is scattered over several pieces of memory.
func (c *Client) GetIntoParts(ctx context.Context, key model.Key, dst [][]byte) (int, error) {
	r := c.BatchGetIntoParts(ctx, []model.Key{key}, [][][]byte{dst})[0]
	return r.Value, r.Err
}

// BatchGetInto is GetInto for many keys.
func (c *Client) BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	parts := make([][][]byte, len(dst))
	for i := range dst {
		parts[i] = dst[i : i+1]
	}
	return c.BatchGetIntoParts(ctx, keys, parts)
}

// BatchGetIntoParts is GetIntoParts for many keys.
func (c *Client) BatchGetIntoParts(ctx context.Context, keys []model.Key, dst [][][]byte) []model.Result[int] {
	out := make([]model.Result[int], len(keys))
	if len(keys) != len(dst) {
		all(out, errs.New(errs.InvalidParams, "local client: get", "%d keys came with %d buffers", len(keys), len(dst)))
		return out
	}
	if err := c.enter(); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Done()
	var straight, copied []int
	var names []model.Key
	refs := make([][]codec.Ref, 0, len(keys))
	for i, k := range keys {
		if r, shared := c.regions.refs(dst[i], nil); shared {
			straight, names, refs = append(straight, i), append(names, k), append(refs, r)
		} else {
			copied = append(copied, i)
		}
	}
	chunks(names, func(i int) int { return len(refs[i]) }, func(lo, hi int) {
		c.get(ctx, names[lo:hi], refs[lo:hi], func(k int, r model.Result[int]) { out[straight[lo+k]] = r })
	})
	c.fetch(ctx, keys, copied, func(i int, obj []byte, err error) {
		if out[i].Err = err; err == nil {
			out[i].Value, out[i].Err = scatter(keys[i], obj, dst[i])
		}
	})
	return out
}

// scatter fills pieces of memory with an object, each before the next. Memory that is too
// small is not touched.
func scatter(key model.Key, obj []byte, dst [][]byte) (int, error) {
	room := 0
	for _, d := range dst {
		room += len(d)
	}
	if len(obj) > room {
		return 0, errs.New(errs.InvalidParams, "local client: get", "%.64q has %d bytes, the buffer %d", key, len(obj), room)
	}
	left := obj
	for _, d := range dst {
		left = left[copy(d, left):]
	}
	return len(obj), nil
}

// get reads objects straight into shared memory.
func (c *Client) get(ctx context.Context, keys []model.Key, refs [][]codec.Ref, set func(int, model.Result[int])) {
	req := &localv1.GetRequest{Keys: codec.KeysOut(keys)}
	var flat []codec.Ref
	for _, r := range refs {
		req.Parts = append(req.Parts, uint32(len(r)))
		flat = append(flat, r...)
	}
	req.Refs = codec.RefsOut(flat)
	c.read(ctx, req, len(keys), set)
}

// read has the service answer for n items.
func (c *Client) read(ctx context.Context, req *localv1.GetRequest, n int, set func(int, model.Result[int])) {
	resp, _, err := touch(ctx, c, "get", func(ctx context.Context, l *link, call *localv1.Call) (*localv1.GetResponse, error) {
		req.Call = call
		return l.rpc.Get(ctx, req)
	})
	if err == nil && len(resp.GetSizes()) != n {
		err = errs.New(errs.DeserializeFail, "local client: get", "%d answers came for %d objects", len(resp.GetSizes()), n)
	}
	out := make([]model.Result[int], n)
	if err == nil {
		for i := range out {
			out[i].Value = int(resp.GetSizes()[i])
		}
		err = codec.ErrorsIn(n, resp.GetErrors(), func(i int, e error) { out[i] = model.Result[int]{Err: e} })
	}
	if err != nil {
		all(out, err)
	}
	for _, i := range resp.GetQuarantined() {
		if int(i) < n && out[i].Err != nil {
			out[i].Err = errs.Wrap(errs.CodeOf(out[i].Err), "local client: get", fmt.Errorf("%w: %w", transfer.ErrQuarantined, out[i].Err))
		}
	}
	for i := range out {
		set(i, out[i])
	}
}

// GetIntoRanges reads parts of objects; see store.Client. Parts of an object of which one
// goes to memory that is not shared go through the local buffer.
func (c *Client) GetIntoRanges(ctx context.Context, reads []store.RangeRead) [][]model.Result[int] {
	out := make([][]model.Result[int], len(reads))
	keys := make([]model.Key, len(reads))
	for i := range reads {
		out[i], keys[i] = make([]model.Result[int], len(reads[i].Ranges)), reads[i].Key
	}
	if err := c.enter(); err != nil {
		for i := range out {
			all(out[i], err)
		}
		return out
	}
	defer c.calls.Done()
	chunks(keys, func(i int) int { return len(reads[i].Ranges) }, func(lo, hi int) {
		b := rangeBatch{c: c, req: &localv1.GetRequest{}}
		for i := lo; i < hi; i++ {
			b.add(ctx, &reads[i], out[i])
		}
		b.send(ctx)
	})
	return out
}
