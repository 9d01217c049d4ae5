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

// write moves the bytes of all items to all their replicas and computes the checksums
// meanwhile. One failed replica fails its item.
func (c *Client) write(ctx context.Context, items []*putItem) {
	var sums sync.WaitGroup
	if c.cfg.Checksum {
		sums.Go(func() {
			checksums(len(items), func(i int) []byte { return items[i].value }, func(i int, s model.Checksum) { items[i].sum = s })
		})
	}
	deadline := time.Now().Add(c.cfg.TransferTimeout)
	reqs := make([]transfer.Request, 0, len(items))
	owner := make([]*putItem, 0, len(items))
	for _, it := range items {
		if it.err = checkPlaces(it); it.err != nil {
			continue
		}
		for _, r := range it.replicas {
			reqs = append(reqs, transfer.Request{Kind: transport.Write, Local: it.value, Peer: r.Endpoint, Addr: r.Address, Deadline: deadline})
			owner = append(owner, it)
		}
	}
	for i, r := range c.engine.Transfer(ctx, reqs) {
		it := owner[i]
		if r.Err == nil {
			c.metrics.writeBytes.Add(float64(len(it.value)))
			continue
		}
		it.poisoned = it.poisoned || errors.Is(r.Err, transfer.ErrQuarantined)
		if it.err == nil {
			it.err = errs.Wrap(errs.TransferFail, "store: put "+quote(it.key)+" to "+reqs[i].Peer, r.Err)
		}
	}
	sums.Wait()
}

// checkPlaces refuses an answer of the master that does not fit the value.
func checkPlaces(it *putItem) error {
	if len(it.replicas) == 0 {
		return errs.New(errs.InvalidReplica, "store: put "+quote(it.key), "the master gave no place to write to")
	}
	for _, r := range it.replicas {
		if r.Size != uint64(len(it.value)) {
			return errs.New(errs.InvalidReplica, "store: put "+quote(it.key), "the master gave %d bytes of room for %d", r.Size, len(it.value))
		}
	}
	return nil
}
