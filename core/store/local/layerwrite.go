package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// PutSessionRanges writes pieces of objects that sessions are open for. Pieces of an object
// of which one is in memory that is not shared go through the local buffer.
func (c *Client) PutSessionRanges(ctx context.Context, writes []store.RangeWrite) []model.Result[int] {
	out := make([]model.Result[int], len(writes))
	if err := c.enter(); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Done()
	keys := make([]model.Key, len(writes))
	for i := range writes {
		keys[i] = writes[i].Key
	}
	chunks(keys, func(i int) int { return len(writes[i].Ranges) }, func(lo, hi int) {
		b := writeBatch{c: c, req: &localv1.PutRequest{Session: true}}
		for i := lo; i < hi; i++ {
			b.add(ctx, &writes[i], &out[i])
		}
		b.send(ctx)
	})
	return out
}

// writeBatch collects pieces of objects for one call.
type writeBatch struct {
	c      *Client
	req    *localv1.PutRequest
	refs   []codec.Ref
	answer []*model.Result[int] // of each object; the value is what it has if all goes well
	staged []*memory.Buffer
}

// add takes the pieces of one object in.
func (b *writeBatch) add(ctx context.Context, w *store.RangeWrite, out *model.Result[int]) {
	parts := make([][]byte, len(w.Ranges))
	total := 0
	for k, s := range w.Ranges {
		parts[k], total = s.Src, total+len(s.Src)
	}
	if _, shared := b.c.regions.refs(parts, nil); !shared {
		buf, err := b.c.room(ctx, total, func() { b.send(ctx) }, len(b.staged) > 0)
		if err != nil {
			out.Err = err
			return
		}
		b.staged = append(b.staged, buf)
		at := buf.Bytes()
		for k, p := range parts {
			n := copy(at, p)
			parts[k], at = at[:n:n], at[n:]
		}
	}
	for k, p := range parts {
		ref, _ := b.c.regions.ref(p)
		if ref.Region == 0 { // An empty piece lies nowhere: any region will do.
			ref = codec.Ref{Region: b.c.regions.any()}
		}
		b.refs = append(b.refs, ref)
		b.req.ObjectOffsets = append(b.req.ObjectOffsets, w.Ranges[k].Offset)
	}
	b.req.Keys = append(b.req.Keys, []byte(w.Key))
	b.req.Parts = append(b.req.Parts, uint32(len(parts)))
	out.Value = total
	b.answer = append(b.answer, out)
}

// send has the service write what was collected.
func (b *writeBatch) send(ctx context.Context) {
	req, answer, staged := b.req, b.answer, b.staged
	req.Refs = codec.RefsOut(b.refs)
	b.req, b.answer, b.staged, b.refs = &localv1.PutRequest{Session: true}, nil, nil, nil
	if len(answer) == 0 {
		return
	}
	resp, spoilt, err := touch(ctx, b.c, "put", func(ctx context.Context, l *link, call *localv1.Call) (*localv1.PutResponse, error) {
		req.Call = call
		return l.rpc.Put(ctx, req)
	})
	if !spoilt {
		for _, s := range staged {
			s.Release()
		}
	}
	if err == nil {
		err = codec.ErrorsIn(len(answer), resp.GetErrors(), func(i int, e error) { *answer[i] = model.Result[int]{Err: e} })
	}
	if err != nil {
		for _, a := range answer {
			*a = model.Result[int]{Err: err}
		}
	}
}
