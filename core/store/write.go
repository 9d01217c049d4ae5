package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write moves the bytes of all items to all parts of all their replicas in parallel and
// computes the checksums meanwhile. One failed replica fails its item.
func (c *Client) write(ctx context.Context, items []*putItem) {
	var sums sync.WaitGroup
	if c.cfg.Checksum {
		sums.Go(func() {
			checksums(len(items), func(i int) []span { return items[i].spans }, func(i int, s model.Checksum) { items[i].sum = s })
		})
	}
	deadline := time.Now().Add(c.cfg.TransferTimeout)
	for _, it := range items {
		if !it.repeated {
			it.deadline = deadline
		}
	}
	c.send(ctx, items)
	sums.Wait()
}

// send moves the bytes of all items to all parts of all their replicas in parallel, each
// until its deadline.
func (c *Client) send(ctx context.Context, items []*putItem) {
	reqs := make([]transfer.Request, 0, len(items))
	owner := make([]*putItem, 0, len(items))
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
	for i, r := range c.session.move(ctx, c.engine, reqs) {
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
