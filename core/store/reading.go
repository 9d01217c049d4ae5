package store

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// maxKept bounds the items of a call whose memory is kept for the next.
const maxKept = 4096

// reading is what one read works with. It is used again: what the caller is to keep, or what
// outlives the call, is never in it. The copies that its items name are in answer.
type reading struct {
	items   []readItem
	todo    []*readItem // items to be read
	found   []*readItem // those that lie somewhere
	arrived []*readItem
	keys    []model.Key
	answer  model.Answer[model.Object]
	reqs    []transfer.Request
	results []transfer.Result
	sums    summing
	renewer renewer
}

// reading returns an empty one with n items, to be given back with doneReading.
func (c *Client) reading(n int) *reading {
	r, ok := c.readings.Get().(*reading)
	if !ok {
		r = &reading{}
	}
	r.items = slices.Grow(r.items[:0], n)[:n]
	return r
}

// doneReading empties r, so that it keeps no caller's memory alive.
func (c *Client) doneReading(r *reading) {
	if cap(r.items) > maxKept || cap(r.found) > maxKept {
		return
	}
	clear(r.items)
	clear(r.todo)
	clear(r.found)
	clear(r.arrived)
	clear(r.keys)
	clear(r.reqs)
	clear(r.results)
	r.sums.reset()
	c.readings.Put(r)
}
