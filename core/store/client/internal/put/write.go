package put

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// write moves the bytes of all items to all their replicas in parallel, and computes the checksums
// meanwhile, unless the transfer can. One failed replica fails its item.
func (c *Call) write(ctx context.Context, items []*Item) {
	w := c.w
	if w.Config.Checksum {
		c.checksums.Reset()
		needed := false
		for _, it := range items {
			if it.checksummed = w.checksummed(it); it.checksummed == nil {
				c.checksums.Add(it.fragments)
				needed = true
			} else {
				c.checksums.Add(nil)
			}
		}
		if needed {
			c.computeInBackground()
		}
	}
	deadline := w.Config.WriteDeadline(time.Now())
	for _, it := range items {
		if !it.again {
			it.deadline = deadline
		}
		it.mayRetry = !it.wasIndeterminate
	}
	c.send(ctx, items)
	if c.computing.Wait(); w.Config.Checksum {
		c.setChecksums(items)
	}
}

// WriteRanges writes the fragments of items to all their replicas in parallel and returns the
// checksums of all fragments, in order.
func (c *Call) WriteRanges(ctx context.Context, items []*Item) []uint32 {
	c.checksums.Reset()
	n := 0
	for _, it := range items {
		for i := range it.fragments {
			c.checksums.Add(it.fragments[i : i+1])
		}
		n += len(it.fragments)
	}
	if !c.w.Config.Checksum {
		c.send(ctx, items)
		return make([]uint32, n)
	}
	c.computeInBackground()
	c.send(ctx, items)
	c.computing.Wait()
	return c.checksums.Of
}

// computeInBackground computes the checksums. The caller waits for computing.
func (c *Call) computeInBackground() {
	c.computing.Add(1)
	go c.compute()
}

// checksummed returns the replica of an item whose checksum the transfer computes, nil if the client
// has to read the value again for its checksum.
func (w *Writer) checksummed(it *Item) *model.Replica {
next:
	for i := range it.Replicas {
		for _, stripe := range it.Replicas[i].Parts {
			if !w.Engine.Sums(stripe.Endpoint) {
				continue next
			}
		}
		return &it.Replicas[i]
	}
	return nil
}

// setChecksums sets the checksum of each item: that of the stored bytes of the replica for which the
// transfer computed it, else that of the caller's memory.
func (c *Call) setChecksums(items []*Item) {
	late := false
	for i, it := range items {
		if it.checksummed == nil {
			it.checksum, c.checksums.Values[i] = fragment.CRC32C(c.checksums.Of[i]), nil
			continue
		}
		checksum, ok := fragment.ChecksumOfTransfer(c.requests[it.first:it.last], c.results[it.first:it.last])
		if it.checksum = fragment.CRC32C(checksum); !ok && it.Err == nil { // The transfer took another path than expected.
			c.checksums.Values[i], late = it.fragments, true
		}
	}
	if !late {
		return
	}
	c.checksums.Compute()
	for i, it := range items {
		if c.checksums.Values[i] != nil {
			it.checksum = fragment.CRC32C(c.checksums.Of[i])
		}
	}
}

// send moves the bytes of all items to all their replicas in parallel, each until its deadline.
func (c *Call) send(ctx context.Context, items []*Item) {
	w := c.w
	reqs, owner := c.requests[:0], c.owner[:0]
	for _, it := range items {
		it.first, it.last = 0, 0
		if it.Err = it.CheckReplicas(); it.Err != nil {
			continue
		}
		for i := range it.Replicas {
			first, checksum := len(reqs), &it.Replicas[i] == it.checksummed
			reqs = fragment.Requests(reqs, transport.Write, it.fragments, &it.Replicas[i], it.deadline, checksum)
			for k := first; k < len(reqs); k++ {
				reqs[k].Hasty = it.mayRetry
			}
			if checksum {
				it.first, it.last = first, len(reqs)
			}
		}
		for len(owner) < len(reqs) {
			owner = append(owner, it)
		}
	}
	c.requests, c.owner = reqs, owner
	c.results = w.Session.Transfer(ctx, w.Engine, reqs, c.results)
	for i, r := range c.results {
		it := owner[i]
		if r.Err == nil {
			w.Metrics.WriteBytes.Add(float64(len(reqs[i].Local)))
			continue
		}
		it.nodeGone = it.nodeGone || errs.ClassOf(r.Err) == errs.ClassTransientPeer
		it.indeterminate = it.indeterminate || errors.Is(r.Err, transfer.ErrQuarantined)
		if it.Err == nil {
			it.Err = errs.Wrap(errs.TransferFail, "store: put "+store.Quote(it.key)+" to "+reqs[i].Peer, r.Err)
		}
	}
}
