package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Range is a part of an object and the memory it is read into.
type Range struct {
	Offset uint64
	Dst    []byte
}

// RangeRead asks for parts of one object.
type RangeRead struct {
	Key    model.Key
	Ranges []Range
}

// GetIntoRanges reads parts of objects straight into the memory given and answers for each
// part how many bytes it has, which is all of it, or why it was not read: InvalidParams for a
// part that goes beyond the object, else as GetInto. One part or key that fails spoils no
// other. A checksum covers a whole object: parts are checked only where they are all of it,
// in order; else the lease alone says that they are the object's.
func (c *Client) GetIntoRanges(ctx context.Context, reads []RangeRead) [][]model.Result[int] {
	defer observe(c.metrics.batchGet, time.Now())
	out := make([][]model.Result[int], len(reads))
	work := c.reading(len(reads))
	defer c.doneReading(work)
	items := work.items
	for i := range reads {
		r := &reads[i]
		out[i] = make([]model.Result[int], len(r.Ranges))
		items[i] = readItem{key: r.Key, ranges: true, check: func(size uint64) []span { return inside(r, size, out[i]) }}
	}
	c.get(ctx, "get_into_ranges", work)
	for i := range items {
		for k := range out[i] {
			res := &out[i][k]
			switch {
			case items[i].err != nil:
				*res = model.Result[int]{Err: items[i].err}
			case res.Err == nil:
				res.Value = len(reads[i].Ranges[k].Dst)
			}
		}
	}
	return out
}

// inside returns the ranges that lie in an object of size bytes and notes why others do not.
func inside(r *RangeRead, size uint64, out []model.Result[int]) []span {
	spans := make([]span, 0, len(r.Ranges))
	for k, g := range r.Ranges {
		out[k].Err = nil
		n := uint64(len(g.Dst))
		switch {
		case g.Offset > size || n > size-g.Offset:
			out[k].Err = errs.New(errs.InvalidParams, "store: get "+quote(r.Key), "the object has %d bytes, [%d, %d) goes beyond", size, g.Offset, g.Offset+n)
		case n > 0:
			spans = append(spans, span{g.Offset, g.Dst})
		}
	}
	return spans
}
