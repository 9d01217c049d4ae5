package client

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// cut returns the length of the first piece of a batch of n items: at most maxItems items
// and maxBytes bytes, at least one item.
func cut(n, maxItems, maxBytes int, size func(int) int) int {
	bytes := 0
	for i := range n {
		if bytes += size(i) + itemOverhead; i > 0 && (i == maxItems || bytes > maxBytes) {
			return i
		}
	}
	return n
}

// itemOverhead is what an item takes in a request beside its key, at most.
const itemOverhead = 32

// inPieces makes the calls that a batch needs, one after the other, and joins the answers.
//
// An error of the first call is the error of the batch. When a later one fails, the items
// of the earlier ones have been dealt with and keep their answers; every other item gets
// the error (made by failed), and nothing more is sent.
func inPieces[Item, Res any](c *Client, items []Item, size func(*Item) int, failed func(error) Res, one func([]Item) ([]Res, error)) ([]Res, error) {
	var out []Res
	for first := true; first || len(items) > 0; first = false {
		n := cut(len(items), c.opts.MaxItems, c.opts.MaxBytes, func(i int) int { return size(&items[i]) })
		res, err := one(items[:n])
		switch {
		case err != nil && first:
			return nil, err
		case err != nil:
			err = errs.Wrap(errs.CodeOf(err), "after a part of the batch", err)
			for range items {
				out = append(out, failed(err))
			}
			return out, nil
		case first && n == len(items):
			return res, nil
		}
		out = append(out, res...)
		items = items[n:]
	}
	return out, nil
}
