package local

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// rangeBatch collects parts of objects for one call.
type rangeBatch struct {
	c       *Client
	session bool // the answers are of objects, not of pieces
	req     *localv1.GetRequest
	refs    []codec.Ref
	answer  []*model.Result[int] // of each piece
	copies  []func()             // from the local buffer to where the parts belong
	staged  []*memory.Buffer
}

// add takes the parts of one object in.
func (b *rangeBatch) add(ctx context.Context, r *store.RangeRead, out []model.Result[int]) {
	refs := make([]codec.Ref, 0, len(r.Ranges))
	shared, total := true, 0
	for _, g := range r.Ranges {
		ref, ok := b.c.regions.ref(g.Dst)
		refs, shared, total = append(refs, ref), shared && (ok || len(g.Dst) == 0), total+len(g.Dst)
	}
	if !shared {
		buf, err := b.c.room(ctx, total, func() { b.send(ctx) }, len(b.staged) > 0)
		if err != nil {
			all(out, err)
			return
		}
		b.staged = append(b.staged, buf)
		at := buf.Bytes()
		for k, g := range r.Ranges {
			from := at[:len(g.Dst)]
			at = at[len(g.Dst):]
			refs[k], _ = b.c.regions.ref(from) // The local buffer is a region.
			got := func() int { return out[k].Value }
			if b.session {
				got = func() int { return whole(out[0].Err, len(from)) }
			}
			b.copies = append(b.copies, func() { copy(g.Dst, from[:got()]) })
		}
	}
	b.req.Keys = append(b.req.Keys, []byte(r.Key))
	b.req.Parts = append(b.req.Parts, uint32(len(refs)))
	for k, ref := range refs {
		if ref.Region == 0 { // An empty part lies nowhere: any region will do.
			ref = codec.Ref{Region: b.c.regions.any()}
		}
		b.refs = append(b.refs, ref)
		b.req.ObjectOffsets = append(b.req.ObjectOffsets, r.Ranges[k].Offset)
		if !b.session {
			b.answer = append(b.answer, &out[k])
		}
	}
	if b.session {
		b.answer = append(b.answer, &out[0])
	}
}

// whole is n, or 0 after an error.
func whole(err error, n int) int {
	if err != nil {
		return 0
	}
	return n
}

// send has the service read what was collected.
func (b *rangeBatch) send(ctx context.Context) {
	req, answer, copies, staged := b.req, b.answer, b.copies, b.staged
	req.Refs, req.Session = codec.RefsOut(b.refs), b.session
	b.req, b.answer, b.copies, b.staged, b.refs = &localv1.GetRequest{}, nil, nil, nil, nil
	if len(answer) == 0 {
		return
	}
	spoilt := false
	b.c.read(ctx, req, len(answer), func(i int, r model.Result[int]) {
		*answer[i] = r
		spoilt = spoilt || errors.Is(r.Err, transfer.ErrQuarantined)
	})
	for _, f := range copies {
		f()
	}
	if !spoilt {
		for _, s := range staged {
			s.Release()
		}
	}
}
