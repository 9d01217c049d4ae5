package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// GetFragments implements store.Pool. The service writes to shared memory directly; the client copies
// into other memory.
func (c *Client) GetFragments(ctx context.Context, keys []model.Key, dst [][]byte, rows []uint64) []model.Result[int] {
	out := make([]model.Result[int], len(keys))
	err := store.CheckRows(len(keys), len(dst), rows)
	if err == nil {
		err = c.calls.Enter("local client")
	}
	if err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Leave()
	var direct, copied []int
	b := &batch{c: c}
	b.send = func() {
		sent, at := b.take(), direct
		direct = nil
		for k, r := range c.get(ctx, &sent, &localv1.GetRequest{}, len(at)) {
			out[at[k]] = r
		}
	}
	for i, k := range keys {
		mem := slices.DeleteFunc(slices.Clone(store.Row(dst, rows, i)), func(m []byte) bool { return len(m) == 0 })
		if _, shared := c.regions.refs(mem); !shared {
			copied = append(copied, i)
			continue
		}
		_, _ = b.add(ctx, k, mem) // Shared memory needs no space.
		direct = append(direct, i)
	}
	b.send()
	c.fetch(ctx, keys, copied, func(i int, object []byte, err error) {
		if out[i].Err = err; err == nil {
			out[i].Value, out[i].Err = scatter(keys[i], object, store.Row(dst, rows, i))
		}
	})
	return out
}

// scatter copies an object into several pieces of memory, one after the other. It does not touch
// memory that is too small.
func scatter(key model.Key, object []byte, dst [][]byte) (int, error) {
	size := 0
	for _, d := range dst {
		size += len(d)
	}
	if len(object) > size {
		return 0, errs.New(errs.InvalidParams, "local client: get", "%.64q has %d bytes, the buffer %d", key, len(object), size)
	}
	rest := object
	for _, d := range dst {
		rest = rest[copy(d, rest):]
	}
	return len(object), nil
}

// get has the service read what was collected, with n results.
func (c *Client) get(ctx context.Context, sent *collected, req *localv1.GetRequest, n int) []model.Result[int] {
	if len(sent.keys) == 0 {
		return nil
	}
	req.Keys, req.Parts, req.Refs = sent.keys, sent.counts, codec.RefsOut(sent.refs)
	resp, _, err := touch(ctx, c, "get", func(ctx context.Context, a *attachment, call *localv1.Call) (*localv1.GetResponse, error) {
		req.Call = call
		return a.rpc.Get(ctx, req)
	})
	sizes := make([]int, len(resp.GetSizes()))
	for i, size := range resp.GetSizes() {
		sizes[i] = int(size)
	}
	out := make([]model.Result[int], n)
	fill(out, "get", sizes, resp.GetErrors(), err)
	for _, i := range resp.GetQuarantined() {
		if int(i) < n && out[i].Err != nil {
			out[i].Err = errs.Wrap(errs.CodeOf(out[i].Err), "local client: get", fmt.Errorf("%w: %w", transfer.ErrQuarantined, out[i].Err))
		}
	}
	return out
}

// GetIntoRanges implements store.Pool. The ranges of an object of which one goes to memory that is not
// shared pass through the local buffer.
func (c *Client) GetIntoRanges(ctx context.Context, reads []store.Ranges) [][]model.Result[int] {
	out := make([][]model.Result[int], len(reads))
	for i := range reads {
		out[i] = make([]model.Result[int], len(reads[i].Fragments))
	}
	c.ranges(ctx, reads, false, out)
	return out
}

// GetRanges implements store.Layers, like GetIntoRanges.
func (s sessions) GetRanges(ctx context.Context, reads []store.Ranges) []model.Result[int] {
	out, rows := make([]model.Result[int], len(reads)), make([][]model.Result[int], len(reads))
	for i := range reads {
		rows[i] = out[i : i+1]
	}
	s.c.ranges(ctx, reads, true, rows)
	return out
}

// ranges reads ranges of objects. Without a session out has a result for each range, with a session
// one for each object.
func (c *Client) ranges(ctx context.Context, reads []store.Ranges, session bool, out [][]model.Result[int]) {
	fail := func(out []model.Result[int], err error) { all(out, err) }
	if err := c.calls.Enter("local client"); err != nil {
		for i := range out {
			fail(out[i], err)
		}
		return
	}
	defer c.calls.Leave()
	var answers []*model.Result[int]
	var offsets []uint64
	var copies []func()
	b := &batch{c: c}
	b.send = func() {
		sent, to, after := b.take(), answers, copies
		req := &localv1.GetRequest{ObjectOffsets: offsets, Session: session}
		answers, offsets, copies = nil, nil, nil
		quarantined := false
		for k, r := range c.get(ctx, &sent, req, len(to)) {
			*to[k] = r
			quarantined = quarantined || errors.Is(r.Err, transfer.ErrQuarantined)
		}
		for _, f := range after {
			f()
		}
		sent.release(quarantined)
	}
	for i := range reads {
		mem := memoryOf(&reads[i])
		staged, err := b.add(ctx, reads[i].Key, mem)
		if err != nil {
			fail(out[i], err)
			continue
		}
		for k, m := range staged {
			copies = append(copies, func() {
				switch {
				case !session:
					copy(mem[k], m[:out[i][k].Value])
				case out[i][0].Err == nil:
					copy(mem[k], m)
				}
			})
		}
		for k, f := range reads[i].Fragments {
			offsets = append(offsets, f.Offset)
			if !session {
				answers = append(answers, &out[i][k])
			}
		}
		if session {
			answers = append(answers, &out[i][0])
		}
	}
	b.send()
}
