package store

import (
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// writing is what one put works with. It is used again: what the caller is to keep, or what
// outlives the call, is never in it. The copies that its items name are in answer, until
// putStart is called again. The zero value is ready.
type writing struct {
	in    []Item
	one   [1][]byte // the parts of a single value
	items []putItem
	of    []*putItem // by input
	todo  []*putItem // to be worked on
	byKey map[model.Key]*putItem

	want    []model.PutItem
	started []*putItem
	answer  model.Answer[[]model.Replica]
	reqs    []transfer.Request
	owner   []*putItem // of reqs
	results []transfer.Result
	done    []*putItem
	ends    []model.EndItem
	ended   []error

	sums   summing
	summed sync.WaitGroup
	sum    func() // computes the checksums in the background
}

// writing returns one with n empty inputs, to be given back with doneWriting.
func (c *Client) writing(n int) *writing {
	w, ok := c.writings.Get().(*writing)
	if !ok {
		w = &writing{}
	}
	w.in = slices.Grow(w.in[:0], n)[:n]
	return w
}

// doneWriting empties w, so that it keeps no caller's memory alive.
func (c *Client) doneWriting(w *writing) {
	if cap(w.items) > maxKept || cap(w.reqs) > maxKept {
		return
	}
	clear(w.in)
	clear(w.one[:])
	clear(w.items)
	clear(w.of)
	clear(w.todo)
	clear(w.byKey)
	clear(w.want)
	clear(w.started)
	clear(w.reqs)
	clear(w.owner)
	clear(w.results)
	clear(w.done)
	clear(w.ends)
	clear(w.ended)
	w.sums.reset()
	c.writings.Put(w)
}

// sumInBackground computes the checksums while the caller does something else, until summed.
func (w *writing) sumInBackground() {
	if w.sum == nil {
		w.sum = func() {
			defer w.summed.Done()
			w.sums.compute()
		}
	}
	w.summed.Add(1)
	go w.sum()
}
