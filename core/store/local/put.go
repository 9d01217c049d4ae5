package local

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// PutItems implements store.Pool. The service reads values in shared memory in place. Other values
// pass through the local buffer, as many at the same time as fit.
func (c *Client) PutItems(ctx context.Context, items []store.Item, cfg model.ReplicateConfig) []store.PutResult {
	out := make([]store.PutResult, len(items))
	if err := c.calls.Enter("local client"); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	defer c.calls.Leave()
	var index []int
	b := &batch{c: c}
	b.send = func() {
		sent, at := b.take(), index
		index = nil
		req := &localv1.PutRequest{Config: codec.ReplicateOut(cfg)}
		for _, i := range at {
			req.Groups = append(req.Groups, items[i].Group)
		}
		if !slices.ContainsFunc(req.GetGroups(), func(g string) bool { return g != "" }) {
			req.Groups = nil
		}
		for k, r := range c.put(ctx, &sent, req) {
			out[at[k]] = store.PutResult{Existed: r.Value, Err: r.Err}
		}
	}
	for i := range items {
		value := slices.DeleteFunc(slices.Clone(items[i].Value), func(m []byte) bool { return len(m) == 0 })
		staged, err := b.add(ctx, items[i].Key, value)
		if err != nil {
			out[i].Err = err
			continue
		}
		for k, mem := range staged {
			copy(mem, value[k])
		}
		index = append(index, i)
	}
	b.send()
	return out
}

// put has the service put what was collected, and returns which objects existed already.
func (c *Client) put(ctx context.Context, sent *collected, req *localv1.PutRequest) []model.Result[bool] {
	out := make([]model.Result[bool], len(sent.keys))
	if len(out) == 0 {
		return nil
	}
	req.Keys, req.Parts, req.Refs = sent.keys, sent.counts, codec.RefsOut(sent.refs)
	resp, quarantined, err := touch(ctx, c, "put", func(ctx context.Context, a *attachment, call *localv1.Call) (*localv1.PutResponse, error) {
		req.Call = call
		return a.rpc.Put(ctx, req)
	})
	sent.release(quarantined)
	fill(out, "put", resp.GetExisted(), resp.GetErrors(), err)
	return out
}

// sessions implements store.Layers. The sessions of a client end with its attachment.
type sessions struct{ c *Client }

// PutRanges implements store.Layers. The ranges of an object of which one is in memory that is not
// shared pass through the local buffer.
func (s sessions) PutRanges(ctx context.Context, writes []store.Ranges) []model.Result[int] {
	c, out := s.c, make([]model.Result[int], len(writes))
	if err := c.calls.Enter("local client"); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Leave()
	var index []int
	var offsets []uint64
	b := &batch{c: c}
	b.send = func() {
		sent, at := b.take(), index
		req := &localv1.PutRequest{Session: true, ObjectOffsets: offsets}
		index, offsets = nil, nil
		for k, r := range c.put(ctx, &sent, req) {
			if r.Err != nil {
				out[at[k]] = model.Result[int]{Err: r.Err}
			}
		}
	}
	for i := range writes {
		mem := memoryOf(&writes[i])
		staged, err := b.add(ctx, writes[i].Key, mem)
		if err != nil {
			out[i].Err = err
			continue
		}
		for k, m := range staged {
			copy(m, mem[k])
		}
		for k, f := range writes[i].Fragments {
			offsets = append(offsets, f.Offset)
			out[i].Value += len(mem[k]) // Unless an error replaces it.
		}
		index = append(index, i)
	}
	b.send()
	return out
}

// memoryOf returns the memory of ranges.
func memoryOf(r *store.Ranges) [][]byte {
	out := make([][]byte, len(r.Fragments))
	for k, f := range r.Fragments {
		out[k] = f.Mem
	}
	return out
}

// StartGets implements store.Layers.
func (s sessions) StartGets(ctx context.Context, keys []model.Key) []error {
	return errorsOf(perKey(ctx, s.c, "start to get", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		resp, err := r.StartGet(ctx, &localv1.StartGetRequest{Keys: keys})
		return make([]struct{}, len(keys)), resp.GetErrors(), err
	}))
}

// EndGets implements store.Layers.
func (s sessions) EndGets(ctx context.Context, keys []model.Key) (failed error) {
	for _, r := range perKey(ctx, s.c, "end get", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		_, err := r.EndGet(ctx, &localv1.EndGetRequest{Keys: keys})
		return make([]struct{}, len(keys)), nil, err
	}) {
		if failed == nil {
			failed = r.Err
		}
	}
	return failed
}

// StartPuts implements store.Layers.
func (s sessions) StartPuts(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error {
	if err := store.CheckStart(len(keys), len(sizes), len(groups)); err != nil {
		return store.Repeat(err, len(keys))
	}
	return errorsOf(perKey(ctx, s.c, "start to put", keys, func(ctx context.Context, r rpc, lo, hi int, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		req := &localv1.StartPutRequest{Keys: keys, Sizes: sizes[lo:hi], Config: codec.ReplicateOut(cfg)}
		if len(groups) > 0 {
			req.Groups = groups[lo:hi]
		}
		resp, err := r.StartPut(ctx, req)
		return make([]struct{}, len(keys)), resp.GetErrors(), err
	}))
}

// EndPuts implements store.Layers.
func (s sessions) EndPuts(ctx context.Context, keys []model.Key) []error {
	return s.endPuts(ctx, keys, false)
}

// RevokePuts implements store.Layers.
func (s sessions) RevokePuts(ctx context.Context, keys []model.Key) []error {
	return s.endPuts(ctx, keys, true)
}

func (s sessions) endPuts(ctx context.Context, keys []model.Key, revoke bool) []error {
	return errorsOf(perKey(ctx, s.c, "end put", keys, func(ctx context.Context, r rpc, _, _ int, keys [][]byte) ([]struct{}, []*localv1.ItemError, error) {
		resp, err := r.EndPut(ctx, &localv1.EndPutRequest{Keys: keys, Revoke: revoke})
		return make([]struct{}, len(keys)), resp.GetErrors(), err
	}))
}

// Close implements store.Layers. It does nothing, since the sessions end with the attachment.
func (sessions) Close(context.Context) error { return nil }
