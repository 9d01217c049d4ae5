package put

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// sumAtOnce is the most bytes whose checksums a put computes before it sends them, and not meanwhile.
const sumAtOnce = 128 << 10

// write moves the bytes of all items to all their replicas in parallel, and computes the checksums
// meanwhile, unless the transfer can. One failed replica fails its item.
func (c *Call) write(ctx context.Context, items []*Item) {
	w := c.w
	if w.Config.Checksum {
		c.checksums.Reset()
		needed := uint64(0)
		for _, it := range items {
			if it.checksummed = w.checksummed(it); it.checksummed == nil && !it.grained() {
				c.checksums.Add(it.fragments)
				needed += it.size
			} else {
				c.checksums.Add(nil)
			}
		}
		if needed > 0 {
			c.inBackground(needed, c.compute)
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

// WriteRanges writes the fragments of items, whose puts have a right to write, to all their replicas in
// parallel. Fold has their checksums then.
func (c *Call) WriteRanges(ctx context.Context, right session.WriteRight, items []*Item) {
	c.right = right
	if c.w.Config.Checksum {
		for _, it := range items {
			it.checksummed = c.w.checksummed(it)
		}
	}
	c.send(ctx, items)
	if c.computing.Wait(); c.w.Config.Checksum {
		c.sumLate(items)
	}
}

// Fold takes the checksums of what an item of WriteRanges wrote into those of the object's grains.
func (c *Call) Fold(it *Item, all []uint32) {
	for i := it.first; i < it.last; i++ {
		c.grains.Of[i].Fold(all, 0, len(c.requests[i].Local), it.size)
	}
}

// inBackground computes the checksums of so many bytes. The caller waits for computing. Those of few bytes it computes at
// once: to start a goroutine, which may wake a thread, takes longer.
func (c *Call) inBackground(bytes uint64, compute func()) {
	c.computing.Add(1)
	if bytes <= sumAtOnce {
		compute()
		return
	}
	go compute()
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
		if it.grained() {
			continue
		}
		if it.checksummed == nil {
			it.checksum, c.checksums.Values[i] = fragment.CRC32C(c.checksums.Of[i]), nil
			continue
		}
		checksum, ok := fragment.ChecksumOfTransfer(c.requests[it.first:it.last], c.results[it.first:it.last])
		if it.checksum = fragment.CRC32C(checksum); !ok && it.Err == nil { // The transfer took another path than expected.
			c.checksums.Values[i], late = it.fragments, true
		}
	}
	if late {
		c.checksums.Compute()
		for i, it := range items {
			if c.checksums.Values[i] != nil {
				it.checksum = fragment.CRC32C(c.checksums.Of[i])
			}
		}
	}
	c.sumLate(items)
	for _, it := range items {
		if it.grained() && it.Err == nil {
			_, n := fragment.GrainOf(it.size)
			all := c.grains.Take(n)
			c.Fold(it, all)
			it.SetGrains(all)
		}
	}
}

// sumLate computes the checksums of grains that the transfer did not compute as was expected.
func (c *Call) sumLate(items []*Item) {
	for _, it := range items {
		if it.grained() && it.checksummed != nil && it.Err == nil {
			for i := it.first; i < it.last; i++ {
				if !c.results[i].Grained {
					c.grains.Need(i, c.requests[i].Local)
				}
			}
		}
	}
	c.grains.Compute()
}

// send moves the bytes of all items to all their replicas in parallel, each until its deadline.
func (c *Call) send(ctx context.Context, items []*Item) {
	w := c.w
	reqs, owner := c.requests[:0], c.owner[:0]
	c.resetGrains()
	sum := 0
	for _, it := range items {
		it.first, it.last = 0, 0
		if it.Err = it.CheckReplicas(); it.Err != nil {
			continue
		}
		grained := w.Config.Checksum && it.grained()
		for i := range it.Replicas {
			first, r := len(reqs), &it.Replicas[i]
			checksum := r == it.checksummed
			if grained && (checksum || it.checksummed == nil && i == 0) {
				grain, _ := fragment.GrainOf(it.size)
				reqs = c.grains.Requests(reqs, transport.Write, it.fragments, r, it.deadline, fragment.Layout{Grain: grain}, checksum)
				for k := first; k < len(reqs) && !checksum; k++ {
					c.grains.Need(k, reqs[k].Local)
					sum += len(reqs[k].Local)
				}
				checksum = true
			} else {
				reqs = fragment.Requests(reqs, transport.Write, it.fragments, r, it.deadline, checksum)
			}
			for k := first; k < len(reqs); k++ {
				reqs[k].Hasty, reqs[k].Until = it.mayRetry, c.until
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
	if sum > 0 {
		c.inBackground(uint64(sum), c.summing)
	}
	c.results = w.Session.Transfer(ctx, w.Engine, reqs, c.results)
	for i, r := range c.results {
		it := owner[i]
		if r.Err == nil {
			w.Metrics.WriteBytes.Add(float64(len(reqs[i].Local)))
			continue
		}
		it.nodeGone = it.nodeGone || errs.ClassOf(r.Err) == errs.ClassTransientPeer || errs.Is(r.Err, errs.LeaseExpired)
		if errors.Is(r.Err, transfer.ErrQuarantined) {
			it.indeterminate, c.leaked = true, true
		}
		if it.Err == nil {
			it.Err = errs.Wrap(errs.TransferFail, "store: put "+store.Quote(it.key)+" to "+reqs[i].Peer, r.Err)
		}
	}
}

// resetGrains forgets the checksums of grains, and their memory where a transport may still write to it.
func (c *Call) resetGrains() {
	if c.leaked {
		c.grains.Abandon()
	} else {
		c.grains.Reset()
	}
	c.leaked = false
}
