package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// read takes items through query, transfer and checks. Those whose lease ran out start
// again, a bounded number of times.
func (c *Client) read(ctx context.Context, r *reading, items []*readItem) {
	defer c.dropDamaged(ctx, items)
	for round := 0; ; round++ {
		late := c.readRound(ctx, r, items)
		if len(late) == 0 {
			return
		}
		c.metrics.expired.Add(float64(len(late)))
		if round == c.cfg.ReadRetries || ctx.Err() != nil {
			for _, it := range late {
				it.err = errs.WithHint(errs.New(errs.LeaseExpired, "store: get "+quote(it.key), "reading took longer than the lease of %v", it.obj.LeaseTTL),
					"raise the master's default_kv_lease_ttl or read smaller batches")
			}
			return
		}
		items = late
	}
}

// readRound asks where the items lie, reads them, and returns those that outlived their
// lease. All others are decided.
func (c *Client) readRound(ctx context.Context, r *reading, items []*readItem) (late []*readItem) {
	return c.fetch(ctx, r, c.fromCache(c.locate(ctx, r, items)))
}

// fetch reads items that are located, and returns those that outlived their lease. All
// others are decided. It uses the memory of pending.
func (c *Client) fetch(ctx context.Context, r *reading, pending []*readItem) (late []*readItem) {
	for len(pending) > 0 {
		deadline := c.cfg.moving(time.Now())
		reqs := r.reqs[:0]
		for _, it := range pending {
			it.first = len(reqs)
			reqs = requests(reqs, transport.Read, it.spans, it.replica(), deadline, c.checked(it))
		}
		r.renewer.begin(c, pending)
		results := c.session.move(ctx, c.engine, reqs, r.results)
		r.renewer.end()
		r.reqs, r.results = reqs, results
		arrived, again := r.arrived[:0], pending[:0] // Behind what the loop looks at.
		for i, it := range pending {
			n := len(results)
			if i+1 < len(pending) {
				n = pending[i+1].first
			}
			res := joined(results[it.first:n])
			quarantined := errors.Is(res.Err, transfer.ErrQuarantined)
			if quarantined && it.mode != callers {
				it.renew() // The old memory is never used again.
			}
			switch {
			case quarantined && it.mode == callers, ctx.Err() != nil && res.Err != nil:
				it.err = errs.Wrap(errs.TransferFail, "store: get "+quote(it.key), res.Err)
			case !res.Done.Before(c.table.until(it)):
				late = append(late, it)
			case res.Err != nil:
				it.last = res.Err
				if c.another(it) {
					again = append(again, it)
				}
			default:
				it.sum, it.summed = sumOfMoved(reqs[it.first:n], results[it.first:n])
				arrived = append(arrived, it)
			}
		}
		r.arrived = arrived
		pending = c.verify(r, arrived, again)
	}
	return late
}

// joined is the outcome of all requests of one item: the end of the last, and an error when
// one failed, first of all one that says that memory may still be touched.
func joined(results []transfer.Result) transfer.Result {
	var out transfer.Result
	for _, r := range results {
		if r.Err != nil && (out.Err == nil || errors.Is(r.Err, transfer.ErrQuarantined)) {
			out.Err = r.Err
		}
		if r.Done.After(out.Done) {
			out.Done = r.Done
		}
	}
	return out
}

// another moves on to the next replica; false, with the item decided, when there is none.
func (c *Client) another(it *readItem) bool {
	it.twice = false
	if it.next++; it.next < len(it.obj.Replicas) {
		c.metrics.failovers.Inc()
		return true
	}
	op, n := "store: get "+quote(it.key), len(it.obj.Replicas)
	if it.damaged > 0 {
		it.err = errs.Wrap(errs.ChecksumMismatch, op, errors.Join(errors.New("no copy has the bytes that were put"), it.last))
	} else {
		it.err = errs.Wrap(errs.TransferFail, op, errors.Join(errs.New(errs.TransferFail, "", "none of %d copies could be read", n), it.last))
	}
	return false
}
