package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write moves the bytes of all items to all parts of all their replicas in parallel. Where no
// copy can be checksummed during the copy, the checksums are computed meanwhile. One failed replica
// fails its item.
func (c *Client) write(ctx context.Context, w *writing, items []*putItem) {
	if c.cfg.Checksum {
		w.sums.reset()
		apart := false
		for _, it := range items {
			if it.summer = c.summer(it); it.summer == nil {
				w.sums.add(it.spans)
				apart = true
			} else {
				w.sums.add(nil)
			}
		}
		if apart {
			w.sumInBackground()
		}
	}
	deadline := c.cfg.writing(time.Now())
	for _, it := range items {
		if !it.again {
			it.deadline = deadline
		}
		it.hasty = !it.repeated
	}
	c.send(ctx, w, items)
	if w.summed.Wait(); c.cfg.Checksum {
		w.takeSums(items)
	}
}

// summer chooses the copy of an item whose checksum is computed during the copy, nil where they
// have to be read again for that.
func (c *Client) summer(it *putItem) *model.Replica {
next:
	for i := range it.replicas {
		for _, p := range it.replicas[i].Parts {
			if !c.engine.Sums(p.Endpoint) {
				continue next
			}
		}
		return &it.replicas[i]
	}
	return nil
}

// takeSums gives each item its checksum: that of the stored bytes of the replica that was checksummed
// on the way, else that of what lies in the caller's memory.
func (w *writing) takeSums(items []*putItem) {
	late := false
	for i, it := range items {
		if it.summer == nil {
			it.sum, w.sums.values[i] = w.sums.sums[i], nil
			continue
		}
		sum, ok := sumOfMoved(w.reqs[it.first:it.last], w.results[it.first:it.last])
		if it.sum = sumOfValue(sum); !ok && it.err == nil { // The way was another than was expected.
			w.sums.values[i], late = it.spans, true
		}
	}
	if !late {
		return
	}
	w.sums.compute()
	for i, it := range items {
		if w.sums.values[i] != nil {
			it.sum = w.sums.sums[i]
		}
	}
}

// send moves the bytes of all items to all parts of all their replicas in parallel, each
// until its deadline.
func (c *Client) send(ctx context.Context, w *writing, items []*putItem) {
	reqs, owner := w.reqs[:0], w.owner[:0]
	for _, it := range items {
		it.first, it.last = 0, 0
		if it.err = it.checkPlaces(); it.err != nil {
			continue
		}
		for i := range it.replicas {
			first, sum := len(reqs), &it.replicas[i] == it.summer
			reqs = requests(reqs, transport.Write, it.spans, &it.replicas[i], it.deadline, sum)
			for k := first; k < len(reqs); k++ {
				reqs[k].Hasty = it.hasty
			}
			if sum {
				it.first, it.last = first, len(reqs)
			}
		}
		for len(owner) < len(reqs) {
			owner = append(owner, it)
		}
	}
	w.reqs, w.owner = reqs, owner
	w.results = c.session.move(ctx, c.engine, reqs, w.results)
	for i, r := range w.results {
		it := owner[i]
		if r.Err == nil {
			c.metrics.writeBytes.Add(float64(len(reqs[i].Local)))
			continue
		}
		it.lost = it.lost || errs.ClassOf(r.Err) == errs.ClassTransientPeer
		it.doubted = it.doubted || errors.Is(r.Err, transfer.ErrQuarantined)
		if it.err == nil {
			it.err = errs.Wrap(errs.TransferFail, "store: put "+quote(it.key)+" to "+reqs[i].Peer, r.Err)
		}
	}
}
