package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write moves the bytes of all items to all parts of all their replicas in parallel and
// computes the checksums meanwhile. One failed replica fails its item.
func (c *Client) write(ctx context.Context, w *writing, items []*putItem) {
	if c.cfg.Checksum {
		w.sums.reset()
		for _, it := range items {
			w.sums.add(it.spans)
		}
		w.sumInBackground()
	}
	deadline := time.Now().Add(c.cfg.TransferTimeout)
	for _, it := range items {
		if !it.repeated {
			it.deadline = deadline
		}
	}
	c.send(ctx, w, items)
	if w.summed.Wait(); c.cfg.Checksum {
		for i, it := range items {
			it.sum = w.sums.sums[i]
		}
	}
}

// send moves the bytes of all items to all parts of all their replicas in parallel, each
// until its deadline.
func (c *Client) send(ctx context.Context, w *writing, items []*putItem) {
	reqs, owner := w.reqs[:0], w.owner[:0]
	for _, it := range items {
		if it.err = it.checkPlaces(); it.err != nil {
			continue
		}
		for i := range it.replicas {
			reqs = requests(reqs, transport.Write, it.spans, &it.replicas[i], it.deadline)
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
		it.doubted = it.doubted || errors.Is(r.Err, transfer.ErrQuarantined)
		if it.err == nil {
			it.err = errs.Wrap(errs.TransferFail, "store: put "+quote(it.key)+" to "+reqs[i].Peer, r.Err)
		}
	}
}
